package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/doctor"
)

// GatewayRole is what gateways with GatewayOptions.OwnRole log in as. It has what `gateway migrate --print-roles`
// prints for their configuration, in each test's own database, and nothing else.
const GatewayRole = "fencegate_gateway"

// asGateway lets the addresses in text, which are the superuser's, be the gateway's.
func (d *Database) asGateway(text string) string {
	as := "postgres://" + GatewayRole + "@"
	if u, err := url.Parse(d.URL); err == nil && u.User != nil {
		text = strings.ReplaceAll(text, "postgres://"+u.User.String()+"@", as)
	}
	return text
}

// grant gives the gateways' role what a gateway of this configuration lacks. One that
// no gateway would take is passed over.
func (d *Database) grant(t testing.TB, text string) {
	t.Helper()
	c, err := config.Parse("gateway.yaml", []byte(text), nil, nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	if err := d.grantAll(ctx, c); err != nil {
		t.Fatalf("granting the gateway's rights: %v", err)
	}
}

// makeRole is for test programs that begin at once.
const makeRole = `DO $$ BEGIN
	CREATE ROLE ` + GatewayRole + ` LOGIN NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
END $$`

func (d *Database) grantAll(ctx context.Context, c *config.Config) error {
	conn, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, makeRole); err != nil {
		return err
	}
	statements, err := doctor.Grants(ctx, conn, doctor.Patient{Config: c, Specs: Specs(c)}, GatewayRole)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Specs is what c says about the tables and functions, as far as rights go.
func Specs(c *config.Config) catalog.Specs {
	all := catalog.Specs{Schemas: c.Schemas}
	for _, t := range c.Tables {
		one := catalog.Spec{Schema: t.Schema, Name: t.Name, Lock: t.Lock, FenceColumn: t.FenceColumn, Observe: t.Mode == config.ModeObserve}
		for _, op := range t.Operations {
			one.Operations = append(one.Operations, catalog.Operation(op))
		}
		all.Tables = append(all.Tables, one)
	}
	for _, f := range c.Functions {
		all.Routines = append(all.Routines, catalog.RoutineSpec{Schema: f.Schema, Name: f.Name, Lock: f.Lock, Expect: config.AnyRows, Place: f.Place})
	}
	return all
}
