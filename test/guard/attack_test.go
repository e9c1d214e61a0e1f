package guard_test

import (
	"strings"
	"testing"
)

const admitted = "BEGIN\nSELECT fencegate.admit('stock:a', 1, 'h')\n"

// attacks are what a role tries that may write the table and holds, at most, the
// lock stock:a as "h" with token 1. {role} is its name.
var attacks = map[string]struct{ script, state string }{
	"Insert":                  {"INSERT INTO shop.stock VALUES ('c')", stateUnfenced},
	"Update":                  {"UPDATE shop.stock SET n = 9", stateUnfenced},
	"Delete":                  {"DELETE FROM shop.stock", stateUnfenced},
	"Truncate":                {"TRUNCATE shop.stock CASCADE", stateUnfenced},
	"TruncateAdmitted":        {admitted + "TRUNCATE shop.stock CASCADE", stateUnfenced},
	"ManyRows":                {admitted + "INSERT INTO shop.stock VALUES ('c'), ('d')", stateUnfenced},
	"OneRowTooMany":           {admitted + "UPDATE shop.stock SET n = 9", stateUnfenced},
	"OnConflict":              {admitted + "INSERT INTO shop.stock VALUES ('a', 5), ('b', 5) ON CONFLICT (sku) DO UPDATE SET n = 9", stateUnfenced},
	"Merge":                   {admitted + "MERGE INTO shop.stock AS s USING (VALUES ('b')) AS v(sku) ON s.sku = v.sku WHEN MATCHED THEN UPDATE SET n = 9", stateUnfenced},
	"WritableCTE":             {admitted + "WITH x AS (UPDATE shop.stock SET n = 9 WHERE sku = 'b' RETURNING 1) SELECT * FROM x", stateUnfenced},
	"ARowMovedOut":            {admitted + "UPDATE shop.stock SET sku = 'z' WHERE sku = 'a'", stateUnfenced},
	"ARowMovedIn":             {admitted + "DELETE FROM shop.stock WHERE sku = 'a'\nUPDATE shop.stock SET sku = 'a' WHERE sku = 'b'", stateUnfenced},
	"ACursor":                 {admitted + "DECLARE c CURSOR FOR SELECT * FROM shop.stock WHERE sku = 'b' FOR UPDATE\nFETCH c\nUPDATE shop.stock SET n = 9 WHERE CURRENT OF c", stateUnfenced},
	"Before":                  {"BEGIN\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'\nSELECT fencegate.admit('stock:a', 1, 'h')\nCOMMIT", stateUnfenced},
	"After":                   {admitted + "COMMIT\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'", stateUnfenced},
	"RolledBack":              {"BEGIN\nSAVEPOINT s\nSELECT fencegate.admit('stock:a', 1, 'h')\nROLLBACK TO s\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'", stateUnfenced},
	"RolledBackInABlock":      {"BEGIN\nDO $$ BEGIN PERFORM fencegate.admit('stock:a', 1, 'h'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN NULL; END $$\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'", stateUnfenced},
	"AnotherToken":            {"BEGIN\nSELECT fencegate.admit('stock:a', 2, 'h')", stateRefused},
	"AnotherHolder":           {"BEGIN\nSELECT fencegate.admit('stock:a', 1, 'x')", stateRefused},
	"NoHolder":                {"BEGIN\nSELECT fencegate.admit('stock:a', 1, NULL)", stateRefused},
	"ARefusalThatIsCaught":    {"BEGIN\nDO $$ BEGIN PERFORM fencegate.admit('stock:b', 1, 'h'); EXCEPTION WHEN OTHERS THEN NULL; END $$\nUPDATE shop.stock SET n = 9 WHERE sku = 'b'", stateUnfenced},
	"AProofOfNothing":         {"BEGIN\nSELECT fencegate.prove('{stock:b}', '{h}', '{1}')\nUPDATE shop.stock SET n = 9 WHERE sku = 'b'", stateUnfenced},
	"AProofAtAnotherLevel":    {"BEGIN ISOLATION LEVEL REPEATABLE READ\nSELECT fencegate.prove('{stock:a}', '{h}', '{1}')", "FG003"},
	"AnotherLevel":            {"BEGIN ISOLATION LEVEL SERIALIZABLE\nSELECT fencegate.admit('stock:a', 1, 'h')", "FG003"},
	"AnotherLevelUnfenced":    {"BEGIN ISOLATION LEVEL SERIALIZABLE\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"TheFencesOwnFunction":    {"BEGIN\nSELECT fencegate.admit('{stock:b}'::text[], '{h}'::text[], '{1}'::bigint[], true)", stateDenied},
	"ForgedByHand":            {"INSERT INTO fencegate.admissions VALUES (pg_backend_pid(), pg_current_xact_id(), pg_postmaster_start_time(), '{stock:a}', '{}')", stateDenied},
	"ForgedByFunction":        {"SELECT fencegate.remember('{stock:a}', '{}')", stateDenied},
	"ForgedRecord":            {"SELECT fencegate.unfenced('observe', 'shop.stock', 'UPDATE', '{x}')", stateDenied},
	"TheRegistry":             {"DELETE FROM fencegate.guards", stateDenied},
	"TheTrigger":              {"ALTER TABLE shop.stock DISABLE TRIGGER fencegate_guard", stateDenied},
	"TheGuardAsAnOracle":      {"CREATE TABLE public.mine (sku text)\nCREATE TRIGGER t AFTER INSERT ON public.mine FOR EACH ROW EXECUTE FUNCTION fencegate.\"guard shop.stock\"()", stateDenied},
	"Settings":                {"SET fencegate.observed = '{}'\nSET fencegate.admitted = 'stock:a'\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"Replication":             {"SET session_replication_role = replica", stateDenied},
	"DeferredConstraints":     {"BEGIN\nSET CONSTRAINTS ALL DEFERRED\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"AnotherRole":             {"SET ROLE {role}\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"ATemporaryTableSoNamed":  {"CREATE TEMP TABLE admissions AS SELECT pg_backend_pid() AS pid, '3'::xid8 AS xid, now() AS started, '{stock:a,stock:b}'::text[] AS keys, '{}'::text[] AS noted\nSET search_path = pg_temp, public, pg_catalog\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"FunctionsSoNamed":        {"CREATE FUNCTION public.pg_current_xact_id() RETURNS xid8 LANGUAGE sql AS $$ SELECT '3'::xid8 $$\nCREATE FUNCTION public.yes(text[], text[]) RETURNS boolean LANGUAGE sql AS 'SELECT true'\nCREATE OPERATOR public.@> (LEFTARG = text[], RIGHTARG = text[], FUNCTION = public.yes)\nSET search_path = public, pg_catalog\nUPDATE shop.stock SET n = 9", stateUnfenced},
	"APreparedStatement":      {admitted + "PREPARE u AS UPDATE shop.stock SET n = 9 WHERE sku = 'a'\nCOMMIT\nEXECUTE u", stateUnfenced},
	"AFunctionWithin":         {"CREATE FUNCTION public.w() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'UPDATE shop.stock SET n = 9'\nSELECT public.w()", stateUnfenced},
	"ADeferredTrigger":        {"CREATE TABLE public.later (x int)\nCREATE FUNCTION public.l() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE shop.stock SET n = 9 WHERE sku = 'b'; RETURN NULL; END $$\nCREATE CONSTRAINT TRIGGER l AFTER INSERT ON public.later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.l()\n" + admitted + "INSERT INTO public.later VALUES (1)\nCOMMIT", stateUnfenced},
	"AViewAbove":              {"CREATE VIEW public.v AS SELECT * FROM shop.stock\nUPDATE public.v SET n = 9", stateUnfenced},
	"ACopy":                   {"COPY shop.stock FROM PROGRAM 'echo c'", stateDenied},
	"ACascadeOfAnotherTable":  {admitted + "DELETE FROM shop.stock WHERE sku = 'a'", stateUnfenced}, // to the row of shop.lot
	"AKeyUpdateThatCascades":  {admitted + "SELECT fencegate.admit('stock:z', 1, 'h')\nUPDATE shop.stock SET sku = 'z' WHERE sku = 'a'", stateUnfenced},
	"APartition":              {"UPDATE shop.part_low SET n = 9", stateUnfenced},
	"APartitionTruncated":     {"TRUNCATE shop.part_high", stateUnfenced},
	"APartitionedTable":       {"INSERT INTO shop.part VALUES (12)", stateUnfenced},
	"ARowToAnotherPartition":  {"BEGIN\nSELECT fencegate.admit('part:1', 1, 'h')\nUPDATE shop.part SET id = 12 WHERE id = 1", stateUnfenced},
	"AChild":                  {"UPDATE shop.child SET n = 9", stateUnfenced},
	"AChildByItsParent":       {"UPDATE shop.parent SET n = 9 WHERE id = 2", stateUnfenced},
	"AParentTruncated":        {"TRUNCATE ONLY shop.parent", stateUnfenced},
	"AnAdmissionOfTheKeyOnly": {"BEGIN\nSELECT fencegate.admit('part:1', 1, 'h')\nUPDATE shop.part SET n = 9", stateUnfenced},
}

func TestNothingPassesAGuardUnfenced(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku}", "lot lot:{sku}:{lot}", "part part:{id}", "parent parent:{id}")
	p.grant(t, "lot:a:1", "h")
	if state := run(t, connect(t, p.URL), "BEGIN\nSELECT fencegate.admit('lot:a:1', 1, 'h')\nINSERT INTO shop.lot VALUES ('a', 1)\nCOMMIT"); state != "" {
		t.Fatal(state)
	}
	for _, key := range []string{"stock:a", "stock:z", "part:1"} {
		p.grant(t, key, "h")
	}
	p.grant(t, "stock:b", "somebody else")
	before := p.look(t, contents)
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			conn := p.as(t)
			if state := run(t, conn, replaceRole(a.script, p.role)); state != a.state {
				t.Errorf("SQLSTATE %q, expected %q", state, a.state)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.Exec(t, "DROP OWNED BY "+p.role+"; GRANT USAGE ON SCHEMA shop, fencegate TO "+p.role+"; GRANT ALL ON ALL TABLES IN SCHEMA shop TO "+p.role+
				"; GRANT CREATE ON SCHEMA public TO "+p.role+"; GRANT EXECUTE ON FUNCTION fencegate.admit(text, bigint, text) TO "+p.role)
			if after := p.look(t, contents); after != before {
				t.Errorf("it wrote %s over %s", after, before)
			}
		})
	}
}

// The control: without guards most of these write, so the test can fail.
func TestTheAttacksWriteWhereThereIsNoGuard(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock)
	p.grant(t, "stock:a", "h")
	p.grant(t, "stock:z", "h")
	p.grant(t, "part:1", "h")
	for name, a := range attacks {
		if a.state != stateUnfenced {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if state := run(t, p.as(t), "BEGIN\n"+strings.ReplaceAll(replaceRole(a.script, p.role), "COMMIT\n", "")+"\nROLLBACK"); state != "" {
				t.Errorf("refused by something else: %s", state)
			}
		})
	}
}
