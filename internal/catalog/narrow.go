package catalog

import "slices"

// ColumnSet is some of a table's columns. The zero value is none.
type ColumnSet struct {
	All   bool
	Names []string // if not All
}

// Has reports whether the set has the column.
func (s ColumnSet) Has(name string) bool { return s.All || slices.Contains(s.Names, name) }

// With returns what is in s or in other.
func (s ColumnSet) With(other ColumnSet) ColumnSet {
	if s.All || other.All {
		return ColumnSet{All: true}
	}
	return ColumnSet{Names: append(slices.Clone(s.Names), other.Names...)}
}

// Narrowing is what somebody may do with a table at most.
type Narrowing struct {
	// Columns are, for each operation that may be done, those that it may return
	// (Select) or set (Insert, Update); a Delete has no use for them.
	Columns map[Operation]ColumnSet
	// Search are columns that filters may name beside those that may be returned.
	// Those of the primary key and of the lock template always may: the lock key
	// tells them anyway.
	Search ColumnSet
}

// Narrowed returns t as it is to somebody who may do no more than n.
func (t *Table) Narrowed(n *Narrowing) *Table {
	if t.narrowing == n {
		return t
	}
	narrowed := *t
	narrowed.narrowing = n
	narrowed.Operations = nil
	for _, op := range t.Operations {
		if _, allowed := n.Columns[op]; allowed {
			narrowed.Operations = append(narrowed.Operations, op)
		}
	}
	return &narrowed
}

// May reports whether op may return or set the column.
func (t *Table) May(op Operation, column string) bool {
	return t.narrowing == nil || t.narrowing.Columns[op].Has(column)
}

// MaySearch reports whether a filter may name the column.
func (t *Table) MaySearch(column string) bool {
	return t.May(Select, column) || t.narrowing.Search.Has(column) ||
		slices.Contains(t.PrimaryKey, column) || slices.Contains(t.Lock.Columns, column)
}

// Shows reports whether there is such a column for those whom t is narrowed to:
// one that they may do something with.
func (t *Table) Shows(column string) bool {
	if _, ok := t.byName[column]; !ok {
		return false
	}
	return t.MaySearch(column) || t.May(Insert, column) || t.May(Update, column)
}

// Hides reports whether some columns may not be returned.
func (t *Table) Hides() bool {
	return t.narrowing != nil && !t.narrowing.Columns[Select].All
}

// Returnable names the columns that may be returned, in the table's own order.
func (t *Table) Returnable() []string {
	var names []string
	for _, column := range t.Columns {
		if t.May(Select, column.Name) {
			names = append(names, column.Name)
		}
	}
	return names
}

// Narrowed returns s as it is to somebody for whom narrow says what may be done
// with a table, nil for one that is not there, and calls which routines are. The
// schemas that have neither are not there.
func (s *Snapshot) Narrowed(narrow func(*Table) *Narrowing, calls func(*Routine) bool) *Snapshot {
	narrowed := &Snapshot{first: s.first, fenced: s.fenced,
		tables: map[[2]string]*Table{}, byName: map[[2]string]*Routine{}}
	show := func(schema string) {
		if !slices.Contains(narrowed.schemas, schema) {
			narrowed.schemas = append(narrowed.schemas, schema)
		}
	}
	for name, table := range s.tables {
		if n := narrow(table); n != nil {
			narrowed.tables[name] = table.Narrowed(n)
			show(table.Schema)
		}
	}
	for _, routine := range s.routines {
		if calls(routine) {
			narrowed.routines = append(narrowed.routines, routine)
			narrowed.byName[[2]string{routine.Schema, routine.Name}] = routine
			if !routine.IsStatement() {
				show(routine.Schema)
			}
		}
	}
	return narrowed
}
