package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

func loadRoutine(ctx context.Context, db reader, spec RoutineSpec) (r *Routine, err error) {
	r = &Routine{RoutineSpec: spec}
	if spec.IsStatement() {
		r.Params, err = loadDeclared(ctx, db, spec.Declared)
	} else {
		err = r.loadFunction(ctx, db)
	}
	if err != nil {
		return nil, err
	}
	return r, checkTemplate(r.Lock, "parameter", r.Column)
}

// param is a parameter as the catalog has it.
type param struct {
	Name, Type string
	Kind       KeyKind
	KeyType    string
	Optional   bool
	Pseudo     bool
	Cuts       bool // its type cuts what is too long for it
	readRow
	Mode string
}

// paramColumns are the Pseudo, Cuts and readRow of a param.
const paramColumns = `typ.typtype = 'p',
		       EXISTS (SELECT FROM pg_catalog.pg_type AS e
		                WHERE e.oid = b.oid
		                  AND coalesce(nullif(e.typelem, 0), e.oid) IN ('"char"'::regtype, 'name'::regtype)),
		       ` + rowColumns

// checked is p as a Param, if JSON can be read as its type without loss.
func (p param) checked(ctx context.Context, db reader) (Param, error) {
	switch {
	case p.Pseudo:
		return Param{}, fmt.Errorf("parameter %q is %s, which is no type of values", p.Name, p.Type)
	case p.Cuts:
		return Param{}, fmt.Errorf("parameter %q is %s, which cuts values that are too long for it; text does not", p.Name, p.Type)
	}
	rowType, err := db.rowType(ctx, p.readRow)
	return Param{Optional: p.Optional, Column: Column{
		Name: p.Name, Type: p.Type, Kind: p.Kind, KeyType: p.KeyType, RowType: rowType, Arrays: p.Arrays,
	}}, err
}

// loadDeclared asks for one type at a time: a mistake in it may be an error of
// the query, which would not say whose.
func loadDeclared(ctx context.Context, db reader, specs []ParamSpec) ([]Param, error) {
	const query = `
		SELECT $1::text, ` + typeColumns + `, false,
		       ` + paramColumns + `, 'i'
		  FROM pg_catalog.pg_type AS typ
		` + typeBase + `
		` + typeRow + `
		 WHERE typ.oid = to_regtype($2)`
	params := make([]Param, len(specs))
	var faults []error
	for i, spec := range specs {
		rows, _ := db.Query(ctx, query, spec.Name, spec.Type)
		found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[param])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = fmt.Errorf("parameter %q: there is no type %q, or this role can't see it", spec.Name, spec.Type)
		case err != nil:
			err = fmt.Errorf("parameter %q: reading its type %q: %w", spec.Name, spec.Type, err)
		default:
			params[i], err = found.checked(ctx, db)
		}
		faults = append(faults, err)
	}
	return params, errors.Join(faults...)
}

// found is a function under the name looked for.
type found struct {
	OID       uint32
	Kind      string
	Arguments string
	Returns   string
	Set       bool
	Void      bool
	Pseudo    bool
	Composite bool
	Outputs   bool // OUT, INOUT or TABLE
}

func (r *Routine) loadFunction(ctx context.Context, db reader) error {
	if slices.Contains(unreachable, r.Schema) {
		return errUnreachable
	}
	const query = `
		SELECT p.oid,
		       p.prokind::text,
		       pg_get_function_identity_arguments(p.oid),
		       format_type(p.prorettype, -1),
		       p.proretset,
		       p.prorettype = 'void'::regtype,
		       typ.typtype = 'p',
		       b.typtype = 'c',
		       coalesce(p.proargmodes::text[] && '{o,b,t}', false)
		  FROM pg_catalog.pg_proc AS p
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
		  JOIN pg_catalog.pg_type AS typ ON typ.oid = p.prorettype
		` + typeBase + `
		 WHERE n.nspname = $1
		   AND p.proname = $2
		 ORDER BY p.oid`
	rows, _ := db.Query(ctx, query, r.Schema, r.Name)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	if err != nil {
		return fmt.Errorf("looking for it: %w", err)
	}
	f, err := soleFunction(r.Name, all)
	if err != nil {
		return err
	}
	r.ReturnsSet, r.ReturnsVoid = f.Set, f.Void
	r.ReturnsScalar = !f.Void && !f.Composite && !f.Outputs
	r.Params, err = loadParams(ctx, db, f.OID)
	return err
}

// soleFunction returns the one function of a name, if it can be called as a
// source of rows.
func soleFunction(name string, all []found) (found, error) {
	if len(all) == 0 {
		return found{}, errors.New("there is no such function, or this role can't see it")
	}
	if len(all) > 1 {
		overloads := make([]string, len(all))
		for i, f := range all {
			overloads[i] = name + "(" + f.Arguments + ")"
		}
		return found{}, fmt.Errorf("%d functions have this name, and a call could mean any of them: %s", len(all), strings.Join(overloads, ", "))
	}
	f := all[0]
	kinds := map[string]string{"a": "an aggregate", "w": "a window function", "p": "a procedure"}
	switch {
	case f.Kind != "f":
		return found{}, fmt.Errorf("it is %s; only functions can be called", kinds[f.Kind])
	case f.Pseudo && !f.Void && !f.Outputs:
		return found{}, fmt.Errorf("it returns %s, which does not say what its rows look like", f.Returns)
	}
	return f, nil
}

func loadParams(ctx context.Context, db reader, function uint32) ([]Param, error) {
	const query = `
		SELECT coalesce(p.proargnames[a.position], ''), ` + typeColumns + `,
		       row_number() OVER (ORDER BY a.position) > p.pronargs - p.pronargdefaults,
		       ` + paramColumns + `,
		       coalesce(a.mode, 'i')
		  FROM pg_catalog.pg_proc AS p
		 CROSS JOIN LATERAL unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargmodes::text[])
		       WITH ORDINALITY AS a(type, mode, position)
		  JOIN pg_catalog.pg_type AS typ ON typ.oid = a.type
		` + typeBase + `
		` + typeRow + `
		 WHERE p.oid = $1
		   AND coalesce(a.mode, 'i') NOT IN ('o', 't')
		 ORDER BY a.position`
	rows, _ := db.Query(ctx, query, function)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[param])
	if err != nil {
		return nil, fmt.Errorf("reading its parameters: %w", err)
	}
	params := make([]Param, len(found))
	var faults []error
	for i, p := range found {
		switch {
		case p.Name == "":
			err = fmt.Errorf("its parameter %d, %s, has no name to call it by", i+1, p.Type)
		case p.Mode == "b":
			err = fmt.Errorf("parameter %q is INOUT, which is not supported", p.Name)
		case p.Mode == "v":
			err = fmt.Errorf("parameter %q is VARIADIC, which is not supported", p.Name)
		default:
			params[i], err = p.checked(ctx, db)
		}
		faults = append(faults, err)
	}
	return params, errors.Join(faults...)
}
