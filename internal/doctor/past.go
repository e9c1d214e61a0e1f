package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// ExaminePast looks only at who can write past the gateway, on one connection and
// in PostgreSQL's catalog alone: cheap enough to be asked again and again. Patient's
// Config, Specs and Plain are needed. Like Examine it never fails.
func ExaminePast(ctx context.Context, p Patient) *Report {
	v := newVisit(p)
	connecting, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, v.Plain)
	if err != nil {
		v.blind("the database", fmt.Errorf("connecting: %w", err))
		return v.report()
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, c := range []check{
		{"who may write the tables", (*visit).checkTableWriters},
		{"who may write the marks", (*visit).checkMarkWriters},
		{"who may create in schema fencegate", (*visit).checkSchemaCreators},
		{"the superusers", (*visit).checkSuperusers},
		{"who runs without triggers", (*visit).checkReplicationRole},
	} {
		v.run(ctx, conn, c)
	}
	// Of those who skip triggers the gateway itself is another matter.
	v.findings = slices.DeleteFunc(v.findings, func(f Finding) bool { return f.Group != writersGroup })
	return v.report()
}
