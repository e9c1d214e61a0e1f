package gate

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/auth"
)

// A principal with a database role has its data statements run as that role, from
// after the fence to the end of the transaction: what is deferred to COMMIT runs as
// it too. Policies of row-level security can ask who it is.

// RoleError says that the gateway can't act as a principal's database role: the role
// is not there, or was not granted to the gateway's own. Nothing was applied.
type RoleError struct {
	Role   string
	Reason string
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("becoming the database role %q: %s", e.Role, e.Reason)
}

func become(batch *pgx.Batch, p auth.Principal) {
	if role := p.DatabaseRole(); role != "" {
		batch.Queue(`SELECT set_config('fencegate.principal', $2, true), set_config('fencegate.claims', $3, true), set_config('role', $1, true)`,
			role, p.Name, asJSON(p.Claims()))
	}
}

// became reads the answer to become.
func became(results pgx.BatchResults, p auth.Principal) error {
	if p.DatabaseRole() == "" {
		return nil
	}
	_, err := results.Exec()
	var said *pgconn.PgError
	if errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" {
		return &RoleError{Role: p.DatabaseRole(), Reason: said.Message}
	}
	return err
}

// resign queues the way back to the gateway's own role.
func resign(batch *pgx.Batch, p auth.Principal) {
	if p.DatabaseRole() != "" {
		batch.Queue(`SELECT set_config('role', 'none', true)`)
	}
}

// resigned reads the answer to resign.
func resigned(results pgx.BatchResults, p auth.Principal) error {
	if p.DatabaseRole() == "" {
		return nil
	}
	_, err := results.Exec()
	return err
}
