package doctor

// Rule is what a code stands for. Codes are stable.
type Rule struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Group    string   `json:"group"`
	Why      string   `json:"why"` // it matters to the fence
}

// The parts of an installation.
const (
	writersGroup  = "writers"
	roleGroup     = "gateway_role"
	databaseGroup = "database"
	schemaGroup   = "schema"
	tablesGroup   = "tables"
	locksGroup    = "lock_service"
	configGroup   = "configuration"
)

// Rules lists every code; docs/doctor.md explains each.
func Rules() []Rule {
	return []Rule{
		{"role_writes_past_gateway", Danger, writersGroup, "Whoever writes without the gateway is not fenced: a late worker with this role commits."},
		{"public_writes_past_gateway", Danger, writersGroup, "Every role that can connect writes without the fence."},
		{"owner_writes_past_gateway", Warning, writersGroup, "A table's owner writes without the fence, and a program that connects as the owner does."},
		{"guard_fences_writer", Note, writersGroup, "It writes without the gateway, and is fenced all the same: the table's guard refuses what was not admitted."},
		{"guard_observes_writer", Warning, writersGroup, "It writes without the gateway, and the table's guard only records what was not admitted: a late worker with this role commits."},
		{"guard_off", Danger, writersGroup, "What is written there directly passes the guard by."},
		{"guard_not_always", Warning, writersGroup, "Sessions of replication, and whoever may set session_replication_role, pass the guard by."},
		{"guard_differs", Danger, writersGroup, "It asks for other lock keys than the gateway: it refuses, or records, what the gateway admits."},
		{"role_writes_marks", Danger, writersGroup, "Who changes the marks decides who may write: a late worker can be made current, the record of a refusal can be forged."},
		{"owner_writes_marks", Note, writersGroup, "The role that migrates can change the marks; it need not be able to log in between migrations."},
		{"role_creates_in_fencegate", Danger, writersGroup, "A function that somebody adds to schema fencegate can be called in place of the fence's own."},
		{"role_becomes_superuser", Warning, writersGroup, "It can act as a superuser, whom nothing stops."},
		{"superuser", Note, writersGroup, "Nothing stops a superuser: neither the fence nor the triggers on the marks."},
		{"role_skips_triggers", Warning, writersGroup, "Sessions of this role fire no triggers: neither those that keep marks from falling, nor foreign keys."},

		{"gateway_is_superuser", Warning, roleGroup, "A mistake in a registered statement or a called function then has the rights of a superuser, the marks' included."},
		{"gateway_skips_triggers", Danger, roleGroup, "The gateway's sessions fire no triggers: foreign keys aren't checked, and nothing keeps a mark from falling."},
		{"privilege_missing", Danger, roleGroup, "The gateway does not start, or answers requests that need it with an error."},
		{"isolation_default", Danger, roleGroup, "Behind a transaction pooler the fence refuses every write under another isolation than READ COMMITTED."},
		{"read_only_default", Danger, roleGroup, "Every write and every grant fails."},
		{"transaction_timeout_short", Warning, roleGroup, "It ends writes, and connections with them, before statement_timeout would."},
		{"search_path_hides_catalog", Warning, roleGroup, "The fence's functions would use operators and functions of these schemas in place of PostgreSQL's own."},

		{"database_is_standby", Danger, databaseGroup, "A standby takes no writes and may lag behind a grant: the gateway does not work on one."},
		{"fsync_off", Danger, databaseGroup, "A crash of the machine can lose or damage marks without anybody noticing: late writers are admitted again."},
		{"full_page_writes_off", Warning, databaseGroup, "A crash of the machine can leave torn pages, of the marks too."},
		{"synchronous_commit_off", Danger, databaseGroup, "A crash of the server loses writes that were acknowledged. (Grants are made durable all the same.)"},
		{"synchronous_commit_weak", Warning, databaseGroup, "A failover loses writes that were acknowledged, although there are synchronous standbys."},
		{"standbys_not_synchronous", Warning, databaseGroup, "A promotion loses the writes that had not got there, though they were acknowledged. Grants are fenced by the epoch, data does not come back."},
		{"postgres_old", Warning, databaseGroup, "Its faults are no longer mended, and fencegate is not tested with it."},
		{"connections_too_few", Warning, databaseGroup, "Under load the gateway gets no connection, and requests end with 503."},
		{"database_plaintext", Warning, databaseGroup, "Who reads along sees holders, which prove possession, and can change what is written."},
		{"pooler_untold", Danger, databaseGroup, "The gateway does not start: without its timeouts nothing would end a write that waits."},
		{"pooler_in_between", Note, databaseGroup, "In session mode all is well. In transaction mode the gateway must be told: a promotion is noticed in another way then."},
		{"pooler_not_there", Note, databaseGroup, "Every statement is planned anew, for nothing."},
		{"clocks_apart", Note, databaseGroup, "Times in logs and records don't match. Nothing of the fence rests on a clock."},

		{"schema_missing", Danger, schemaGroup, "Without marks there is no fence; the gateway does not start."},
		{"schema_behind", Danger, schemaGroup, "The gateway does not start."},
		{"schema_ahead", Danger, schemaGroup, "This program does not know that schema, and does not start."},
		{"schema_dirty", Danger, schemaGroup, "Nobody knows what the half-way migration left; the gateway does not start."},
		{"fence_trigger_off", Danger, schemaGroup, "It keeps marks from falling, or records from being changed; a mark that falls admits late writers."},
		{"fence_function_foreign", Warning, schemaGroup, "Somebody else than the migrations made it or took it over, and its owner can replace it at any time."},
		{"definer_without_search_path", Danger, schemaGroup, "A caller can make it run functions of his own with its owner's rights."},
		{"refusals_partition_missing", Warning, schemaGroup, "Refusals of that week can't be recorded until it is there; the writes are refused all the same."},
		{"refusals_overdue", Warning, schemaGroup, "Old records are not dropped, and fill the disk."},

		{"serve_refuses", Danger, tablesGroup, "The gateway does not start; rows with two different locks would be guarded by neither."},
		{"observed", Warning, tablesGroup, "It is observed, not protected: a late worker's write is applied, and recorded."},
		{"rows_without_key", Warning, tablesGroup, "No lock key covers such a row, so nobody can change it through the gateway."},
		{"template_nullable", Note, tablesGroup, "No lock key covers a row with NULL there, so nobody can change it through the gateway."},
		{"template_unindexed", Warning, tablesGroup, "Every write reads the whole table while it holds the lock's mark, and all others of the key wait."},
		{"fence_column_unindexed", Warning, tablesGroup, "Every grant reads the whole table for its highest token."},
		{"cascade_past_lock", Warning, tablesGroup, "PostgreSQL changes these rows without looking at their lock: their holder is not asked."},
		{"triggers", Note, tablesGroup, "What triggers write beyond the rows of a request is not checked against the lock key."},
		{"row_security", Note, tablesGroup, "Rows that a policy hides from the gateway look as if they were not there."},
		{"no_primary_key", Note, tablesGroup, "PUT needs one, and upserts need one or a unique index to name in on_conflict."},

		{"redis_evicts_leases", Danger, locksGroup, "Redis throws leases away when its memory is full: live holders lose their locks. (No late writer gets in.)"},
		{"redis_is_replica", Danger, locksGroup, "A replica takes no leases: every acquire and every write ends with 503."},
		{"redis_restart_loses_leases", Note, locksGroup, "A restart costs holders their leases. (No late writer gets in.)"},
		{"redis_failover_loses_leases", Note, locksGroup, "A failover costs holders leases that the replica had not got. (No late writer gets in.)"},
		{"lock_service_plaintext", Warning, locksGroup, "Who reads along sees holders, which prove possession, and can end or forge leases."},
		{"lock_service_no_login", Warning, locksGroup, "Who reaches the server can end leases and read their holders, which prove possession."},

		{"auth_none", Note, configGroup, "Whoever reaches the gateway may take any lock, and write under it."},
		{"admin_exposed", Warning, configGroup, "Profiles, which show what is in memory, are open to whoever reaches that address."},
		{"listener_plaintext", Warning, configGroup, "Who reads along sees holders, which prove possession, and can write in their place."},
		{"certificate_unusable", Danger, configGroup, "The gateway does not start; one that runs goes on with the certificate that it has."},
		{"certificate_ends", Warning, configGroup, "Once it has ended nobody connects any more: workers lose their leases, and probes fail."},
		{"fence_only", Note, configGroup, "While the lock service is down, writes go on under a lease that may be over. The mark still keeps late writers out."},
		{"lease_check_lenient", Note, configGroup, "A holder goes on writing after its lease, until somebody else is granted the lock. The mark still keeps late writers out."},
		{"max_lifetime_long", Note, configGroup, "A worker that hangs and still renews keeps everybody else out for as long."},
		{"idempotency_keys_short", Note, configGroup, "A client that repeats a request later than that may have it applied twice."},
		{"ttl_short", Note, configGroup, "A slow lock service costs live holders their leases: a renewal that takes its time comes too late."},
	}
}

func rulesByCode() map[string]Rule {
	all := map[string]Rule{}
	for _, r := range Rules() {
		all[r.Code] = r
	}
	return all
}
