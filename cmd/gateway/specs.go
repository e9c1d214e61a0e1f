package main

import (
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/gate"
)

// specs is what the configuration says about all that can be reached.
func specs(cfg *config.Config) catalog.Specs {
	return catalog.Specs{Schemas: cfg.Schemas, Tables: tableSpecs(cfg.Tables),
		Routines: append(statementSpecs(cfg.Statements), functionSpecs(cfg.Functions)...)}
}

func tableSpecs(tables []config.Table) []catalog.Spec {
	specs := make([]catalog.Spec, len(tables))
	for i, t := range tables {
		specs[i] = catalog.Spec{Schema: t.Schema, Name: t.Name, Lock: t.Lock, FenceColumn: t.FenceColumn,
			RecordPayload: t.RecordPayload, Redact: t.Redact, Observe: t.Mode == config.ModeObserve, Place: t.Place}
		for _, op := range t.Operations {
			specs[i].Operations = append(specs[i].Operations, catalog.Operation(op))
		}
	}
	return specs
}

func statementSpecs(statements []config.Statement) []catalog.RoutineSpec {
	specs := make([]catalog.RoutineSpec, len(statements))
	for i, s := range statements {
		specs[i] = catalog.RoutineSpec{Name: s.Name, Lock: s.Lock, Text: s.Text, Uses: s.Uses,
			Expect: int64(s.ExpectRows), Place: s.Place, Line: s.Line, Observe: s.Mode == config.ModeObserve}
		for _, p := range s.Params {
			specs[i].Declared = append(specs[i].Declared, catalog.ParamSpec(p))
		}
	}
	return specs
}

func functionSpecs(functions []config.Function) []catalog.RoutineSpec {
	specs := make([]catalog.RoutineSpec, len(functions))
	for i, f := range functions {
		specs[i] = catalog.RoutineSpec{Schema: f.Schema, Name: f.Name, Lock: f.Lock, Expect: config.AnyRows, Place: f.Place,
			Observe: f.Mode == config.ModeObserve}
	}
	return specs
}

func leaseTerms(l config.Leases) gate.Terms {
	return gate.Terms{Min: l.MinTTL, Default: l.DefaultTTL, Max: l.MaxTTL, Lifetime: l.MaxLifetime}
}

func namespaces(all []config.Namespace) []gate.Namespace {
	given := make([]gate.Namespace, len(all))
	for i, n := range all {
		given[i] = gate.Namespace{Prefix: n.Prefix, Terms: gate.Terms{Min: n.MinTTL, Default: n.DefaultTTL, Max: n.MaxTTL, Lifetime: n.MaxLifetime}}
	}
	return given
}
