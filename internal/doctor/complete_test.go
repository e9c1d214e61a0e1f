package doctor_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/doctor"
)

// elsewhere are the codes that TestEachFaultIsFoundAndNothingElse does not make, and
// who does: other tests of this package and of cmd/gateway, or nobody, since it takes
// a standby, another version, another machine or another clock.
func elsewhere() map[string]string {
	return map[string]string{
		"fsync_off":                   "TestDoctorTellsTheTruthAboutADevStack",
		"full_page_writes_off":        "TestDoctorTellsTheTruthAboutADevStack",
		"redis_evicts_leases":         "TestFaultsOfRedisAreFound",
		"redis_is_replica":            "TestFaultsOfRedisAreFound",
		"guard_fences_writer":         "TestGuardsAreSeen",
		"guard_observes_writer":       "TestGuardsAreSeen",
		"guard_off":                   "TestGuardsAreSeen",
		"guard_not_always":            "TestGuardsAreSeen",
		"guard_differs":               "TestGuardsAreSeen",
		"pooler_untold":               "TestAPoolerThatNobodyToldOfIsFound",
		"certificate_unusable":        "TestDoctorLooksAtCertificates",
		"certificate_ends":            "TestDoctorLooksAtCertificates",
		"redis_failover_loses_leases": "",
		"pooler_in_between":           "",
		"database_is_standby":         "",
		"standbys_not_synchronous":    "",
		"synchronous_commit_weak":     "",
		"postgres_old":                "",
		"transaction_timeout_short":   "",
		"database_plaintext":          "",
		"clocks_apart":                "",
	}
}

func TestEveryCodeIsAccountedFor(t *testing.T) {
	t.Parallel()
	made := elsewhere()
	for name, f := range faults() {
		if by, twice := made[f.code]; twice && by != "faults" {
			t.Errorf("%s makes %s, which elsewhere lists", name, f.code)
		}
		made[f.code] = "faults"
	}
	for _, r := range doctor.Rules() {
		if _, known := made[r.Code]; !known {
			t.Errorf("no test makes %s", r.Code)
		}
		delete(made, r.Code)
	}
	for code := range made {
		t.Errorf("there is no rule for %s", code)
	}
}
