package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestASoundInstallationHasNoWarnings(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresConfig{Settings: map[string]string{"fsync": "on", "full_page_writes": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	db := testenv.OwnDatabase(t, server)
	db.Exec(t, devstack.Shop)
	i := (&installation{suffix: "own"}).in(t, db)
	r := doctor.Examine(t.Context(), i.patient(t, ""))
	if bad := codes(i.findings(r), doctor.Danger, doctor.Warning); len(bad) > 0 || len(r.Unseen) > 0 {
		t.Errorf("%v:\n%s", bad, describe(r))
	}
	if notes := codes(i.findings(r), doctor.Note); !slices.Contains(notes, "auth_none") || !slices.Contains(notes, "superuser") {
		t.Errorf("the notes are %v:\n%s", notes, describe(r))
	}
}

// fault is one that is really made.
type fault struct {
	code   string
	also   string // another code that the fault is as well
	sql    string // run as the superuser
	config string // more of the configuration
	found  string // what the finding says of it, or about what
}

func faults() map[string]fault {
	tables := func(lock string) string {
		return "tables: [{name: shop.inventory, lock: 'inventory:{sku}'}, " + lock + "]\n"
	}
	return map[string]fault{
		"AGrantToARole":                  {code: "role_writes_past_gateway", sql: `GRANT UPDATE ON shop.inventory TO @role`, found: "can UPDATE shop.inventory"},
		"AGrantOnAColumn":                {code: "role_writes_past_gateway", sql: `GRANT UPDATE (available) ON shop.inventory TO @role`, found: "can UPDATE shop.inventory"},
		"AGrantToAGroup":                 {code: "role_writes_past_gateway", sql: `GRANT DELETE ON shop.orders TO @group; GRANT @group TO @role; ALTER ROLE @role NOINHERIT`, found: "as doctor_group"},
		"AMemberOfTheGatewaysRole":       {code: "role_writes_past_gateway", also: "role_writes_marks", sql: `GRANT @gateway TO @role`, found: "as doctor_gateway"},
		"WriteAllData":                   {code: "role_writes_past_gateway", also: "role_writes_marks", sql: `GRANT pg_write_all_data TO @role; GRANT USAGE ON SCHEMA shop TO @role`, found: "pg_write_all_data"},
		"AGrantOnAViewAbove":             {code: "role_writes_past_gateway", sql: `CREATE VIEW public.cups AS SELECT * FROM shop.inventory; GRANT UPDATE ON public.cups TO @role`, found: "can UPDATE public.cups"},
		"AGrantOnAPartition":             {code: "role_writes_past_gateway", sql: partitioned + `GRANT INSERT ON shop.part_one TO @role`, config: tables("{name: shop.part, lock: 'part:{id}'}"), found: "can INSERT shop.part_one"},
		"AGrantToPublic":                 {code: "public_writes_past_gateway", sql: `GRANT TRUNCATE ON shop.inventory TO PUBLIC`, found: "can TRUNCATE shop.inventory"},
		"AnOwnerThatLogsIn":              {code: "owner_writes_past_gateway", sql: `ALTER ROLE @owner LOGIN`, found: "shop.order_lines"},
		"AMemberOfTheOwner":              {code: "owner_writes_past_gateway", sql: `GRANT @owner TO @role`, found: "as doctor_owner"},
		"AGrantOnTheMarks":               {code: "role_writes_marks", sql: `GRANT USAGE ON SCHEMA fencegate TO @role; GRANT UPDATE ON fencegate.marks TO @role`, found: "can UPDATE fencegate.marks"},
		"AnOwnerOfTheMarksThatLogsIn":    {code: "owner_writes_marks", sql: `ALTER SCHEMA fencegate OWNER TO @role; ALTER TABLE fencegate.marks OWNER TO @role;` + functionsToRole + rightsOfTheGateway, found: "fencegate.marks"},
		"ARightToCreateInTheSchema":      {code: "role_creates_in_fencegate", sql: `GRANT CREATE ON SCHEMA fencegate TO @role`, found: "REVOKE CREATE ON SCHEMA fencegate FROM doctor_role"},
		"AMemberOfASuperuser":            {code: "role_becomes_superuser", sql: `ALTER ROLE @group SUPERUSER; GRANT @group TO @role`, found: "is a member of doctor_group"},
		"ASuperuser":                     {code: "superuser", sql: `ALTER ROLE @role SUPERUSER`, found: "doctor_role"},
		"ARoleWithoutTriggers":           {code: "role_skips_triggers", sql: `ALTER ROLE @role SET session_replication_role = replica`, found: "ALTER ROLE doctor_role"},
		"ARoleWithoutTriggersHere":       {code: "role_skips_triggers", sql: `ALTER ROLE @role IN DATABASE @database SET session_replication_role = replica`, found: "IN DATABASE"},
		"ADatabaseWithoutTriggers":       {code: "gateway_skips_triggers", sql: `ALTER DATABASE @database SET session_replication_role = replica`, found: "every role"},
		"AGatewayThatIsASuperuser":       {code: "gateway_is_superuser", sql: `ALTER ROLE @gateway SUPERUSER`, found: "logs in as a superuser"},
		"AMissingRightOnATable":          {code: "privilege_missing", sql: `REVOKE DELETE ON shop.orders FROM @gateway`, found: "GRANT DELETE ON shop.orders TO doctor_gateway"},
		"AMissingRightOnMarks":           {code: "privilege_missing", sql: `REVOKE UPDATE ON fencegate.marks FROM @gateway`, found: "lacks UPDATE on fencegate.marks"},
		"AMissingRightOnAnswers":         {code: "privilege_missing", sql: `REVOKE DELETE ON fencegate.answers FROM @gateway`, found: "GRANT DELETE ON fencegate.answers"},
		"ADatabaseRoleThatIsNotThere":    {code: "privilege_missing", config: actingAs("@group_x"), found: "_x NOLOGIN;"},
		"ADatabaseRoleOfOthers":          {code: "privilege_missing", sql: `GRANT USAGE ON SCHEMA fencegate TO @group; GRANT SELECT, INSERT, UPDATE, DELETE ON shop.inventory TO @group`, config: actingAs("@group"), found: "may not act as doctor_group"},
		"ADatabaseRoleWithoutTheSchema":  {code: "privilege_missing", sql: `GRANT @group TO @gateway; GRANT SELECT, INSERT, UPDATE, DELETE ON shop.inventory TO @group`, config: actingAs("@group"), found: "GRANT USAGE ON SCHEMA fencegate TO doctor_group"},
		"ADatabaseRoleWithoutARight":     {code: "privilege_missing", sql: `GRANT @group TO @gateway; GRANT USAGE ON SCHEMA fencegate TO @group; GRANT SELECT, INSERT, DELETE ON shop.inventory TO @group`, config: actingAs("@group"), found: "GRANT UPDATE ON shop.inventory TO doctor_group"},
		"AMissingRightOnASequence":       {code: "privilege_missing", sql: `CREATE TABLE shop.serial (id serial PRIMARY KEY); GRANT ALL ON shop.serial TO @gateway`, config: tables("{name: shop.serial, lock: 'serial:{id}'}"), found: "GRANT USAGE ON SEQUENCE shop.serial_id_seq"},
		"AMissingRightOnAFencesFunction": {code: "privilege_missing", sql: `REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA fencegate FROM PUBLIC`, found: "FUNCTION fencegate.admit"},
		"AMissingRightOnAFunction":       {code: "privilege_missing", sql: `CREATE FUNCTION shop.f(sku text) RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE EXECUTE ON FUNCTION shop.f FROM PUBLIC`, config: "functions: [{name: shop.f, lock: 'inventory:{sku}'}]\n", found: "FUNCTION shop.f(sku text)"},
		"ARoleThatOnlyReads":             {code: "read_only_default", sql: `ALTER ROLE @gateway SET default_transaction_read_only = on`, found: "ALTER ROLE doctor_gateway"},
		"ASearchPathBeforeTheCatalog":    {code: "search_path_hides_catalog", sql: `ALTER ROLE @gateway SET search_path = public, pg_catalog`, found: "public, pg_catalog"},
		"CommitsThatDoNotWait":           {code: "synchronous_commit_off", sql: `ALTER ROLE @gateway SET synchronous_commit = off`, found: "SET synchronous_commit = on"},
		"TooFewConnections":              {code: "connections_too_few", sql: `ALTER ROLE @gateway CONNECTION LIMIT 20`, found: "takes up to 44 connections"},
		"TooFewConnectionsToTheServer":   {code: "connections_too_few", config: "database: {url: '@url', pool_size: 500}\n", found: "max_connections"},
		"AnIsolationBehindAPooler":       {code: "isolation_default", sql: `ALTER ROLE @gateway SET default_transaction_isolation = 'repeatable read'`, config: "database: {url: '@url', pooler: transaction}\n", found: "repeatable read"},
		"APoolerThatIsNotThere":          {code: "pooler_not_there", config: "database: {url: '@url', pooler: transaction}\n", found: "pooler: none"},
		"ASchemaThatIsBehind":            {code: "schema_behind", sql: `UPDATE fencegate.schema_migrations SET version = version - 1`, found: "migrate up"},
		"ASchemaThatIsAhead":             {code: "schema_ahead", sql: `UPDATE fencegate.schema_migrations SET version = 99`, found: "version 99"},
		"ASchemaThatIsDirty":             {code: "schema_dirty", sql: `UPDATE fencegate.schema_migrations SET dirty = true`, found: "half-way"},
		"ASchemaThatIsMissing":           {code: "schema_missing", sql: `DROP SCHEMA fencegate CASCADE`, found: "migrate up"},
		"ATriggerThatIsOff":              {code: "fence_trigger_off", sql: `ALTER TABLE fencegate.marks DISABLE TRIGGER marks_never_fall`, found: "ENABLE TRIGGER marks_never_fall"},
		"ATriggerThatIsMissing":          {code: "fence_trigger_off", sql: `DROP TRIGGER grants_append_only ON fencegate.grants`, found: "is missing"},
		"AFunctionOfSomebodyElses":       {code: "fence_function_foreign", sql: `ALTER FUNCTION fencegate.timeline() OWNER TO @role`, found: "fencegate.timeline()"},
		"ADefinerWithoutASearchPath":     {code: "definer_without_search_path", sql: `ALTER FUNCTION fencegate.timeline() SECURITY DEFINER`, found: "SET search_path"},
		"AMissingPartition":              {code: "refusals_partition_missing", sql: dropPartitions, found: "keep_refusals"},
		"AnOldPartition":                 {code: "refusals_overdue", sql: `SELECT fencegate.add_refusal_week('2020-01-06')`, found: "refusals_20200106"},
		"AColumnThatIsNotThere":          {code: "serve_refuses", config: "tables: [{name: shop.inventory, lock: 'inventory:{nope}'}]\n", found: `no column "nope"`},
		"TwoLocksOnOneRow":               {code: "serve_refuses", sql: `CREATE VIEW shop.cups AS SELECT * FROM shop.inventory; GRANT ALL ON shop.cups TO @gateway`, config: tables("{name: shop.cups, lock: 'cups'}"), found: "two locks"},
		"ARowWithoutAKey":                {code: "rows_without_key", sql: `UPDATE shop.orders SET note = NULL`, config: tables("{name: shop.orders, lock: 'note:{note}'}"), found: "shop.orders"},
		"ATemplateColumnThatMayBeNull":   {code: "template_nullable", sql: `UPDATE shop.orders SET note = ''`, config: tables("{name: shop.orders, lock: 'note:{note}'}"), found: `ALTER COLUMN "note" SET NOT NULL`},
		"ATemplateWithoutAnIndex":        {code: "template_unindexed", sql: manyRows, config: tables("{name: shop.many, lock: 'many:{kind}'}"), found: `CREATE INDEX CONCURRENTLY ON shop.many ("kind")`},
		"AFenceColumnWithoutAnIndex":     {code: "fence_column_unindexed", sql: manyRows, config: tables("{name: shop.many, lock: 'many', fence_column: token}"), found: `shop.many ("token")`},
		"ACascade":                       {code: "cascade_past_lock", sql: cascading, config: tables("{name: shop.stock, lock: 'stock:{id}'}"), found: "a row of shop.inventory is deleted"},
		"ACascadeFromAnotherTable":       {code: "cascade_past_lock", sql: cascading, config: "tables: [{name: shop.stock, lock: 'stock:{id}'}]\n", found: "deleted"},
		"ATrigger":                       {code: "triggers", sql: `CREATE FUNCTION shop.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER sees BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.t()`, found: "sees (shop.t)"},
		"RowLevelSecurity":               {code: "row_security", sql: `ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY`, found: "shop.orders"},
		"NoPrimaryKey":                   {code: "no_primary_key", sql: `CREATE TABLE shop.loose (id int NOT NULL); GRANT ALL ON shop.loose TO @gateway`, config: tables("{name: shop.loose, lock: 'loose:{id}'}"), found: "shop.loose"},
		"ATableInObserveMode":            {code: "observed", sql: `CREATE TABLE shop.loose (id int PRIMARY KEY); GRANT ALL ON shop.loose TO @gateway`, config: tables("{name: shop.loose, lock: 'loose:{id}', mode: observe}"), found: "shop.loose"},
		"AnOpenAdminListener":            {code: "admin_exposed", also: "listener_plaintext", config: "admin_listen: 0.0.0.0:9090\n", found: "0.0.0.0:9090"},
		"AListenerInTheClear":            {code: "listener_plaintext", also: "admin_exposed", config: "admin_listen: ':9090'\n", found: "without TLS"},
		"FenceOnly":                      {code: "fence_only", config: "leases: {lock_service_down: fence_only}\n", found: "fence_only"},
		"ALenientLeaseCheck":             {code: "lease_check_lenient", config: "leases: {lease_check: lenient}\n", found: "lenient"},
		"ALongLifetime":                  {code: "max_lifetime_long", config: "leases: {max_lifetime: 24h}\n", found: "24h"},
		"ShortIdempotencyKeys":           {code: "idempotency_keys_short", config: "limits: {keep_idempotency_keys: 1m}\n", found: "1m"},
		"AShortLease":                    {code: "ttl_short", config: "leases: {default_ttl: 1s}\n", found: "default_ttl is 1s"},
		"NoAuthentication":               {code: "auth_none", found: "auth is none"},
		"ALockServiceInTheClear":         {code: "lock_service_plaintext", also: "lock_service_no_login", config: remote, found: "192.0.2.1"},
		"ALockServiceWithoutAPassword":   {code: "lock_service_no_login", also: "lock_service_plaintext", config: remote, found: "192.0.2.1"},
		"ARedisThatForgets":              {code: "redis_restart_loses_leases", found: "append-only"},
	}
}

const (
	remote      = "leases: {backend: redis_cluster}\nredis: {cluster: {addresses: ['192.0.2.1:6379']}}\n"
	partitioned = `
		CREATE TABLE shop.part (id int PRIMARY KEY) PARTITION BY LIST (id);
		CREATE TABLE shop.part_one PARTITION OF shop.part FOR VALUES IN (1);
		ALTER TABLE shop.part OWNER TO @owner;
		ALTER TABLE shop.part_one OWNER TO @owner;
		GRANT ALL ON shop.part TO @gateway;`
	cascading = `
		CREATE TABLE shop.stock (id int PRIMARY KEY, sku varchar(40) NOT NULL REFERENCES shop.inventory ON DELETE CASCADE);
		GRANT ALL ON shop.stock TO @gateway;`
	manyRows = `
		CREATE TABLE shop.many (id int PRIMARY KEY, kind int NOT NULL, token bigint);
		INSERT INTO shop.many SELECT n, n FROM generate_series(1, 40000) AS n;
		GRANT ALL ON shop.many TO @gateway;`
	functionsToRole = `
		DO $$ DECLARE f regprocedure; BEGIN
			FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'fencegate'::regnamespace LOOP
				EXECUTE format('ALTER FUNCTION %s OWNER TO @role', f);
			END LOOP;
		END $$;`
	dropPartitions = `
		DO $$ DECLARE part regclass; BEGIN
			FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'fencegate.refusals'::regclass LOOP
				EXECUTE format('DROP TABLE %s', part);
			END LOOP;
		END $$;`
)

// actingAs is a configuration whose principals act as a database role.
func actingAs(role string) string {
	return "auth: required\nroles: [{name: app, tables: [{table: shop.inventory}], database_role: '" + role + "'}]\n" +
		"principals: [{name: p, roles: [app], api_keys: [{id: 0123456789ab, sha256: " + strings.Repeat("a", 64) + "}]}]\n"
}

func TestEachFaultIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	sound := install(t)
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := sound
			if f.sql != "" {
				i = install(t)
				i.exec(t, f.sql)
			}
			wantFault(t, i, doctor.Examine(t.Context(), i.patient(t, f.config)), f)
		})
	}
}

// ofTheTests is what is wrong with the server that tests share: it forgets in a crash.
func ofTheTests() []string { return []string{"fsync_off", "full_page_writes_off"} }

// wantFault wants the code, with what was found, and nothing else above a note.
func wantFault(t *testing.T, i *installation, r *doctor.Report, want fault) {
	t.Helper()
	all := i.findings(r)
	if !slices.ContainsFunc(all, func(f doctor.Finding) bool {
		return f.Code == want.code && strings.Contains(f.About+"\n"+f.Found+"\n"+f.Fix, want.found)
	}) {
		t.Errorf("no %s with %q", want.code, want.found)
	}
	expected := append([]string{want.code, want.also}, ofTheTests()...)
	for _, code := range codes(all, doctor.Danger, doctor.Warning) {
		if !slices.Contains(expected, code) {
			t.Errorf("beside %s there is %s", want.code, code)
		}
	}
	if len(r.Unseen) > 0 {
		t.Errorf("not looked at: %v", r.Unseen)
	}
	if t.Failed() {
		t.Log(describe(r))
	}
}
