package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// Guard is what `gateway protect` does to a table.
type Guard struct {
	Table   *catalog.Table
	Site    catalog.GuardSite
	Observe bool // what is not fenced is recorded and passes
	// Former is the function of the guard that the table has. "": it has none.
	Former string
}

// maxName is the longest name PostgreSQL keeps, in bytes.
const maxName = 63

// GuardFunction is the name of the trigger function of a table's guard, in schema
// fencegate.
func GuardFunction(schema, name string) string {
	function := "guard " + schema + "." + name
	if len(function) <= maxName {
		return function
	}
	sum := sha256.Sum256([]byte(schema + "\x00" + name))
	return "guard " + hex.EncodeToString(sum[:16])
}

// Install is the SQL that makes the guard, or makes it anew: statements with comments,
// to run in one transaction.
//
// The triggers are AFTER ROW, which see rows as all BEFORE triggers left them, fire
// for every way in which a row gets written, and come with every partition.
// Statement triggers with transition tables would be cheaper for large statements,
// but don't fire for what is written to a partition by its own name.
func (g Guard) Install() string {
	function := g.function()
	var b strings.Builder
	fmt.Fprintf(&b, "-- Waits for the transactions that were admitted without a proof for guards, and\n-- keeps others from it meanwhile: a holder is not refused for having begun before.\n%s", lockGuards)
	fmt.Fprintf(&b, "-- As %s, the owner of schema fencegate.\n", ident(g.Site.SchemaOwner))
	fmt.Fprintf(&b, "CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE plpgsql VOLATILE\n    SECURITY DEFINER\n    SET search_path = pg_catalog, pg_temp\nAS %s;\n",
		function, dollarQuoted(g.body()))
	fmt.Fprintf(&b, "ALTER FUNCTION %s OWNER TO %s;\n", function, ident(g.Site.SchemaOwner))
	fmt.Fprintf(&b, "REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC;\n", function)
	for _, owner := range g.owners() {
		fmt.Fprintf(&b, "GRANT EXECUTE ON FUNCTION %s TO %s;\n", function, ident(owner))
	}
	fmt.Fprintf(&b, `INSERT INTO fencegate.guards (relation, function_name, lock_template, mode)
VALUES (%s::regclass, %s, %s, %s)
ON CONFLICT (relation) DO UPDATE
   SET function_name = EXCLUDED.function_name,
       lock_template = EXCLUDED.lock_template,
       mode = EXCLUDED.mode,
       installed_at = EXCLUDED.installed_at,
       installed_by = EXCLUDED.installed_by;
`, literal(tableName(g.Table)), literal(GuardFunction(g.Table.Schema, g.Table.Name)), literal(g.Table.Lock.String()), literal(g.mode()))
	for _, r := range g.Site.Relations {
		g.triggers(&b, r)
	}
	if g.Former != "" && g.Former != GuardFunction(g.Table.Schema, g.Table.Name) { // the table was renamed
		fmt.Fprintf(&b, "\n%s", dropFunction(g.Former))
	}
	return b.String()
}

// lockGuards comes before any lock on the table: admitted transactions have theirs in
// this order as well.
const lockGuards = "LOCK TABLE fencegate.guards IN ACCESS EXCLUSIVE MODE;\n\n"

func (g Guard) triggers(b *strings.Builder, r catalog.Relation) {
	name := relationName(r)
	fmt.Fprintf(b, "\n-- As %s, the owner of %s.\n", ident(r.Owner), name)
	if !r.Partition {
		fmt.Fprintf(b, "CREATE OR REPLACE TRIGGER %s AFTER INSERT OR UPDATE OR DELETE ON %s\n    FOR EACH ROW EXECUTE FUNCTION %s;\nALTER TABLE %s ENABLE ALWAYS TRIGGER %[1]s;\n",
			catalog.GuardTrigger, name, g.function(), name)
	}
	fmt.Fprintf(b, "CREATE OR REPLACE TRIGGER %s BEFORE TRUNCATE ON %s\n    FOR EACH STATEMENT EXECUTE FUNCTION %s;\nALTER TABLE %s ENABLE ALWAYS TRIGGER %[1]s;\n",
		catalog.GuardTruncateTrigger, name, g.function(), onlyName(r))
}

// Remove is the SQL that takes the guard Former away, with all that Install made.
func (g Guard) Remove() string {
	var b strings.Builder
	b.WriteString(lockGuards)
	for _, r := range g.Site.Relations {
		if !r.Partition {
			fmt.Fprintf(&b, "DROP TRIGGER IF EXISTS %s ON %s;\n", catalog.GuardTrigger, relationName(r))
		}
		fmt.Fprintf(&b, "DROP TRIGGER IF EXISTS %s ON %s;\n", catalog.GuardTruncateTrigger, relationName(r))
	}
	fmt.Fprintf(&b, "%sDELETE FROM fencegate.guards WHERE relation = %s::regclass;\n", dropFunction(g.Former), literal(tableName(g.Table)))
	return b.String()
}

func dropFunction(name string) string {
	return "DROP FUNCTION IF EXISTS fencegate." + ident(name) + "();\n"
}

// RemoveGone is the SQL that takes away what is left of a guard whose table is gone.
func RemoveGone(guard catalog.Guard) string {
	return fmt.Sprintf("%s%sDELETE FROM fencegate.guards WHERE function_name = %s;\n\n", lockGuards, dropFunction(guard.Function), literal(guard.Function))
}

func (g Guard) mode() string {
	if g.Observe {
		return "observe"
	}
	return "enforce"
}

func (g Guard) function() string {
	return "fencegate." + ident(GuardFunction(g.Table.Schema, g.Table.Name)) + "()"
}

// owners are those who own tables and not the function: PostgreSQL asks whether they
// may execute it when they make a trigger, or a partition.
func (g Guard) owners() []string {
	var all []string
	for _, r := range g.Site.Relations {
		if r.Owner != g.Site.SchemaOwner {
			all = append(all, r.Owner)
		}
	}
	return unique(all)
}

// body is the trigger function: what the row's lock keys are, and whether this
// transaction was admitted for them.
func (g Guard) body() string {
	before, after := rendered(g.Table, columnOf("OLD")), rendered(g.Table, columnOf("NEW"))
	all, noted := "NULL::pg_catalog.text", ""
	if g.Table.Lock.WholeTable() {
		all = after
	}
	name := literal(g.Table.QualifiedName())
	if g.Observe {
		noted = "\n           OR a.noted @> ARRAY[" + name + "]"
	}
	return fmt.Sprintf(`
DECLARE
    touched text[] COLLATE "C";
BEGIN
    IF TG_OP = 'UPDATE' THEN
        touched := ARRAY[%[1]s, %[2]s];
    ELSIF TG_OP = 'INSERT' THEN
        touched := ARRAY[%[2]s];
    ELSIF TG_OP = 'DELETE' THEN
        touched := ARRAY[%[1]s];
    ELSE -- TRUNCATE
        touched := ARRAY[%[3]s];
    END IF;
    IF NOT EXISTS (
        SELECT FROM fencegate.admissions AS a
         WHERE a.pid = pg_backend_pid()
           AND a.xid = pg_current_xact_id()
           AND a.started = pg_postmaster_start_time()
           AND (a.keys @> touched%[4]s)) THEN
        PERFORM fencegate.unfenced(%[5]s, %[6]s, TG_OP, touched);
    END IF;
    RETURN NULL;
END `, before, after, all, noted, literal(g.mode()), name)
}

// relationName is for statements that also reach what is below a partitioned table.
func relationName(r catalog.Relation) string { return ident(r.Schema) + "." + ident(r.Name) }

func onlyName(r catalog.Relation) string { return "ONLY " + relationName(r) }

// dollarQuoted quotes text that may have anything in it.
func dollarQuoted(text string) string {
	tag := "guard"
	for strings.Contains(text, "$"+tag+"$") {
		tag += "_"
	}
	return "$" + tag + "$" + text + "$" + tag + "$"
}
