package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/pooled"
)

// checkDatabaseRoles becomes each database_role once. It reports all that can't be.
func checkDatabaseRoles(ctx context.Context, database pooled.Querier, roles []config.Role) error {
	var faults []error
	for i, role := range roles {
		if role.DatabaseRole == "" {
			continue
		}
		rows, _ := database.Query(ctx, `SELECT set_config('role', $1, true)`, role.DatabaseRole)
		rows.Close()
		if err := rows.Err(); err != nil {
			faults = append(faults, fmt.Errorf("roles[%d].database_role: becoming %q: %w; `gateway migrate --print-roles` prints what is missing", i, role.DatabaseRole, err))
		}
	}
	return errors.Join(faults...)
}
