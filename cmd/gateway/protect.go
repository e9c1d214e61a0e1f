package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/statement"
	migrations "github.com/fencegate/fencegate/sql"
)

// protection is what the command was asked for.
type protection struct {
	path                         string
	observe, apply, remove, list bool
}

func newProtect() *cobra.Command {
	var p protection
	cmd := &cobra.Command{
		Use:   "protect TABLE --config FILE",
		Short: "Guard a table inside the database against writers that pass the gateway by",
		Long: "Prints SQL, or applies it: triggers that let a write pass only in a transaction that\n" +
			"was admitted for the row's lock key, whoever makes it. TABLE is one of the\n" +
			"configuration's. The database is the configuration's, or " + config.MigrateURLEnv + " if\n" +
			"that is set. docs/guard.md tells what a guard does, and what it costs.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.list == (len(args) == 1) || p.list && (p.apply || p.remove || p.observe) || p.remove && p.observe {
				return errors.New("say either a table, with --observe or --remove and --apply, or --list")
			}
			return p.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&p.observe, "observe", false, "record what is not fenced and let it pass")
	flags.BoolVar(&p.apply, "apply", false, "run the SQL instead of printing it, in one transaction")
	flags.BoolVar(&p.remove, "remove", false, "take the guard away")
	flags.BoolVar(&p.list, "list", false, "show the guards that are there, and what is wrong with them")
	flags.StringVar(&p.path, "config", "", "configuration `file`")
	config.Flags(flags)
	return cmd
}

func (p protection) run(cmd *cobra.Command, table string) error {
	cfg, err := loadConfig(cmd, p.path)
	if err != nil {
		return err
	}
	url, err := directURL(cfg, "protecting")
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := migrations.Check(ctx, conn); err != nil {
		return err
	}
	guards, err := catalog.LoadGuards(ctx, conn)
	if err != nil {
		return err
	}
	if p.list {
		return listGuards(cmd.OutOrStdout(), guards, specs(cfg).Tables)
	}
	guard, lacking, err := p.guard(ctx, conn, specs(cfg), guards, table)
	if err != nil {
		return fmt.Errorf("protecting %s: %w", table, err)
	}
	if p.remove && guard.Former == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s has no guard\n", guard.Table.QualifiedName())
		return nil
	}
	script := p.script(guard, guards)
	if !p.apply {
		printScript(cmd.OutOrStdout(), script, lacking)
		return nil
	}
	if lacking != nil {
		return lacking
	}
	return p.applied(cmd, conn, guard.Table, script)
}

// guard is the one that is asked for, and what this role lacks to make or remove it.
func (p protection) guard(ctx context.Context, conn *pgx.Conn, all catalog.Specs, guards []catalog.Guard, name string) (g statement.Guard, lacking, err error) {
	g.Observe = p.observe
	if g.Table, err = p.table(ctx, conn, all, guards, name); err != nil {
		return g, nil, err
	}
	for _, there := range guards {
		if there.Schema == g.Table.Schema && there.Name == g.Table.Name {
			g.Former = there.Function
		}
	}
	g.Site, err = catalog.LoadGuardSite(ctx, conn, g.Table)
	return g, g.Site.Lacking(), err
}

// table is one of the configuration's, or, to take its guard away, any that has one.
func (p protection) table(ctx context.Context, conn *pgx.Conn, all catalog.Specs, guards []catalog.Guard, name string) (*catalog.Table, error) {
	if p.remove {
		for _, g := range guards {
			if g.QualifiedName() == name || g.Schema == "public" && g.Name == name {
				return &catalog.Table{Spec: catalog.Spec{Schema: g.Schema, Name: g.Name}}, nil
			}
		}
	}
	for _, spec := range all.Tables {
		if spec.Schema+"."+spec.Name != name && (spec.Schema != "public" || spec.Name != name) {
			continue
		}
		snapshot, err := catalog.Load(ctx, conn, catalog.Specs{Schemas: all.Schemas, Tables: []catalog.Spec{spec}})
		if err != nil {
			return nil, err
		}
		return snapshot.Table(spec.Schema, spec.Name)
	}
	return nil, errors.New("the configuration has no such table; say schema.table")
}

// script also clears away the guards of tables that are gone.
func (p protection) script(g statement.Guard, guards []catalog.Guard) string {
	var b strings.Builder
	for _, there := range guards {
		if there.Name == "" {
			b.WriteString(statement.RemoveGone(there))
		}
	}
	if p.remove {
		return b.String() + g.Remove()
	}
	return b.String() + g.Install()
}

// lockWait is short: while the SQL waits for locks, admitted writes wait behind it.
const lockWait = "2s"

func framed(script string) string {
	return "BEGIN;\nSET LOCAL lock_timeout = '" + lockWait + "'; -- admitted writes wait meanwhile; if it fails, run it again\n\n" + script + "\nCOMMIT;\n"
}

func printScript(out io.Writer, script string, lacking error) {
	if lacking != nil {
		fmt.Fprintf(out, "-- %s\n\n", strings.ReplaceAll(lacking.Error(), "\n", "\n-- "))
	}
	fmt.Fprint(out, framed(script))
}

// lockNotAvailable is what PostgreSQL raises past lock_timeout.
const lockNotAvailable = "55P03"

func (p protection) applied(cmd *cobra.Command, conn *pgx.Conn, table *catalog.Table, script string) error {
	_, err := conn.PgConn().Exec(cmd.Context(), framed(script)).ReadAll()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == lockNotAvailable {
		return fmt.Errorf("nothing was changed: a transaction has held a lock on %s or the guards for more than %s; run it again, or look for the transaction in pg_stat_activity: %w",
			table.QualifiedName(), lockWait, err)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	switch {
	case p.remove:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: guard removed\n", table.QualifiedName())
	case p.observe:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: guarded, observing: unfenced writes pass and are recorded\n", table.QualifiedName())
	default:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: guarded, unfenced writes are refused\n", table.QualifiedName())
	}
	return nil
}

func listGuards(out io.Writer, guards []catalog.Guard, configured []catalog.Spec) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tMODE\tLOCK\tSTATE")
	for _, g := range guards {
		mode := "enforce"
		if g.Observe {
			mode = "observe"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.QualifiedName(), mode, g.Template, stateOf(g, configured))
	}
	return w.Flush()
}

func stateOf(g catalog.Guard, configured []catalog.Spec) string {
	faults := g.Faults()
	if names := g.NotAlways(); names != "" {
		faults = append(faults, "replication roles pass it on "+names)
	}
	if difference := g.Differs(configured); difference != "" {
		faults = append(faults, difference)
	}
	if len(faults) == 0 {
		return "in place"
	}
	return strings.Join(faults, "; ")
}
