-- Guards: triggers on protected tables that let a row pass only in a transaction
-- that was admitted for its lock key, whichever way the transaction came.
-- `gateway protect` makes them.

-- The tables that have a guard. Everybody may read it: admit asks, whoever calls it,
-- and whoever asks holds a lock on it until his transaction ends. So who makes or
-- removes a guard waits for the transactions that were admitted without it.
CREATE TABLE fencegate.guards (
    relation      regclass PRIMARY KEY,
    function_name text NOT NULL,
    lock_template text NOT NULL,
    mode          text NOT NULL CONSTRAINT guards_mode_known CHECK (mode IN ('enforce', 'observe')),
    installed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    installed_by  text NOT NULL DEFAULT session_user
);
GRANT SELECT ON fencegate.guards TO PUBLIC;

-- What the running transaction of a backend was admitted for, and the guarded tables
-- for which it has been recorded already. A row says something only in the
-- transaction, and in the life of the server, that it names: xid8 never repeats there,
-- and a row that came with a dump names another one. Nobody has rights on it; rows
-- are used again, so there are about as many as there are backends, and a rollback,
-- to a savepoint as well, takes back what it says. A crash or a promotion empties it.
CREATE UNLOGGED TABLE fencegate.admissions (
    pid     integer NOT NULL,
    xid     xid8 NOT NULL,
    started timestamptz NOT NULL,
    keys    text[] COLLATE "C" NOT NULL,
    noted   text[] COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX admissions_pid ON fencegate.admissions (pid);

-- Adds to the row of the running transaction. A prepared transaction keeps its row
-- locked while the backend that it came from goes on, hence SKIP LOCKED and no key.
CREATE FUNCTION fencegate.remember(p_keys text[], p_noted text[]) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    here xid8 := pg_current_xact_id();
BEGIN
    UPDATE fencegate.admissions AS a
       SET xid = here,
           started = pg_postmaster_start_time(),
           keys = CASE WHEN a.xid <> here OR a.started <> pg_postmaster_start_time() THEN p_keys
                       WHEN a.keys @> p_keys THEN a.keys
                       ELSE a.keys || p_keys END,
           noted = CASE WHEN a.xid <> here OR a.started <> pg_postmaster_start_time() THEN p_noted
                        ELSE a.noted || p_noted END
     WHERE a.ctid = (SELECT b.ctid
                       FROM fencegate.admissions AS b
                      WHERE b.pid = pg_backend_pid()
                      ORDER BY b.xid = here DESC
                      LIMIT 1
                        FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO fencegate.admissions (pid, xid, started, keys, noted)
        VALUES (pg_backend_pid(), here, pg_postmaster_start_time(), p_keys, p_noted);
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION fencegate.remember(text[], text[]) FROM PUBLIC;

-- Makes the proof that guards ask for. It believes nobody, and looks at the marks
-- itself: so everybody may call it. The claims that match were locked by admit.
--
-- It calls none of the functions that admit calls: these would be planned anew for
-- each of the two search paths, at every write, which took five times as long.
CREATE FUNCTION fencegate.prove(p_keys text[], p_holders text[], p_tokens bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    admitted text[] := '{}';
    line     bigint := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint; -- fencegate.timeline()
    here     integer := (SELECT max(id) FROM fencegate.epochs WHERE timeline = line);
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM fencegate.require_read_committed();
    END IF;
    FOR i IN 1 .. cardinality(p_keys) LOOP
        PERFORM FROM fencegate.marks
          WHERE lock_key = p_keys[i] COLLATE "C"
            AND token = p_tokens[i]
            AND holder = p_holders[i]
            AND state = 'held'
            AND epoch = here
            FOR NO KEY UPDATE;
        IF FOUND THEN
            admitted := admitted || p_keys[i];
        END IF;
    END LOOP;
    IF admitted <> '{}' THEN
        PERFORM fencegate.remember(admitted, '{}');
    END IF;
END $$;

-- The fence, as it was, and the proof for guards, if there are any. p_observe has no
-- default any more, so that admit with three arguments is always the one below: for
-- drivers that send values without types there must be no other.
DROP FUNCTION fencegate.admit(text[], text[], bigint[], boolean);
CREATE FUNCTION fencegate.admit(p_keys text[], p_holders text[], p_tokens bigint[], p_observe boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v        record;
    refusals jsonb;
BEGIN
    PERFORM fencegate.require_read_committed();
    FOR i IN 1 .. cardinality(p_keys) LOOP
        IF refusals IS NULL THEN
            PERFORM FROM fencegate.marks
              WHERE lock_key = p_keys[i] COLLATE "C"
                AND token = p_tokens[i]
                AND holder = p_holders[i]
                AND state = 'held'
                AND epoch = fencegate.current_epoch()
                FOR NO KEY UPDATE;
            CONTINUE WHEN FOUND OR p_observe;
        END IF;
        SELECT * INTO v FROM fencegate.verdict(p_keys[i], p_holders[i], p_tokens[i]);
        CONTINUE WHEN v.code IS NULL AND refusals IS NOT NULL;
        refusals := coalesce(refusals, '[]') || jsonb_build_object(
            'claim', i - 1, 'code', coalesce(v.code, 'epoch_changed'), 'mark', v.mark::text);
    END LOOP;
    IF refusals IS NOT NULL THEN
        RAISE EXCEPTION 'refused by the fence: %', refusals -> 0 ->> 'code'
            USING ERRCODE = 'FG001', DETAIL = refusals::text;
    END IF;
    IF EXISTS (SELECT FROM fencegate.guards) THEN
        PERFORM fencegate.prove(p_keys, p_holders, p_tokens);
    END IF;
END $$;

-- The fence for whoever connects directly: the lock key, its token and its holder as
-- the grant gave them. It looks first which database this is, as a gateway's
-- connections do when they are new.
CREATE FUNCTION fencegate.admit(lock_key text, token bigint, holder text) RETURNS void LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF lock_key IS NULL OR token IS NULL OR holder IS NULL THEN
        RAISE EXCEPTION 'refused by the fence: the lock key, the token and the holder are all needed'
            USING ERRCODE = 'FG001', DETAIL = '[{"claim": 0, "code": "fencing_required"}]';
    END IF;
    PERFORM fencegate.ensure_epoch();
    PERFORM fencegate.admit(ARRAY[lock_key], ARRAY[holder], ARRAY[token], false);
END $$;
REVOKE EXECUTE ON FUNCTION fencegate.admit(text, bigint, text) FROM PUBLIC;

-- What becomes of a row that its transaction was not admitted for: p_keys are those
-- that it was and is under, NULL where it has none. Guards call it, nobody else may.
--
-- A record that can't be made does not take the write with it, as in observe mode of
-- the gateway; that it was tried is remembered first, so that it is tried once.
CREATE FUNCTION fencegate.unfenced(p_mode text, p_table text, p_operation text, p_keys text[]) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '200ms'
AS $$
DECLARE
    missing text;
BEGIN
    SELECT k INTO missing
      FROM unnest(p_keys) AS k
     WHERE NOT EXISTS (
           SELECT FROM fencegate.admissions AS a
            WHERE a.pid = pg_backend_pid()
              AND a.xid = pg_current_xact_id()
              AND a.started = pg_postmaster_start_time()
              AND k COLLATE "C" = ANY (a.keys))
     LIMIT 1;
    IF p_mode = 'enforce' THEN
        RAISE EXCEPTION '% of % refused by its guard: %', p_operation, p_table,
              CASE WHEN missing IS NOT NULL THEN format('this transaction was not admitted for the lock key %s', to_json(missing))
                   WHEN p_operation = 'TRUNCATE' THEN 'no lock key covers all rows'
                   ELSE 'no lock key covers the row, a column of the lock template is NULL' END
            USING ERRCODE = 'FG011',
                  HINT = CASE WHEN missing IS NOT NULL
                              THEN 'Write through the gateway, or take the lock and call SELECT fencegate.admit(key, token, holder) first in the same transaction (docs/guard.md).'
                              WHEN p_operation = 'TRUNCATE' THEN 'DELETE the rows under their locks, or remove the guard for as long as it takes: gateway protect --remove.'
                              ELSE 'Give that column a value.' END;
    END IF;
    PERFORM fencegate.remember('{}', ARRAY[p_table]);
    BEGIN
        INSERT INTO fencegate.refusals (code, disposition, operation, table_name, lock_key, presented_token, holder_digest,
               client, principal, request_id, remote_address, instance)
        VALUES ('unfenced_write', 'admitted', lower(p_operation), p_table, coalesce(missing, ''), 0, '',
                nullif(current_setting('application_name'), ''), session_user, 'backend ' || pg_backend_pid(),
                coalesce(host(inet_client_addr()), 'local'), 'guard');
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'an unfenced write to % could not be recorded: %', p_table, SQLERRM;
    END;
END $$;
REVOKE EXECUTE ON FUNCTION fencegate.unfenced(text, text, text, text[]) FROM PUBLIC;
