-- The marks and everything that decides about them. The schema "fencegate"
-- itself is made by the migrator, which keeps its version table there.

-- One row per life of the database that a gateway has met: the system identifier
-- changes with a dump and restore, the timeline with every promotion and
-- point-in-time recovery. A grant from an earlier life may have been rolled
-- back, so it is worth nothing.
CREATE TABLE fencegate.epochs (
    id                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    system_identifier bigint NOT NULL,
    timeline          bigint NOT NULL,
    token_floor       bigint NOT NULL CHECK (token_floor >= 0),
    started_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX epochs_timeline_idx ON fencegate.epochs (timeline, id);

-- One row per lock key, made at its first grant and never deleted: forgetting a
-- mark would start its tokens again at 1 and re-admit late writers.
CREATE TABLE fencegate.marks (
    lock_key      text COLLATE "C" PRIMARY KEY,
    token         bigint NOT NULL CONSTRAINT marks_token_positive CHECK (token > 0),
    holder        text NOT NULL,
    state         text NOT NULL CONSTRAINT marks_state_known CHECK (state IN ('held', 'released', 'revoked')),
    epoch         integer NOT NULL,
    client        text NOT NULL,
    granted_at    timestamptz NOT NULL,
    blocked_until timestamptz
) WITH (fillfactor = 70);

-- What became of each grant, in order: granted, then released or revoked, or
-- simply followed by the next grant of the key.
CREATE TABLE fencegate.grants (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event         text NOT NULL CONSTRAINT grants_event_known CHECK (event IN ('granted', 'released', 'revoked')),
    lock_key      text COLLATE "C" NOT NULL,
    token         bigint NOT NULL,
    holder_digest text NOT NULL,
    client        text NOT NULL,
    principal     text NOT NULL,
    epoch         integer NOT NULL,
    occurred_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX grants_token_once ON fencegate.grants (lock_key, token) WHERE event = 'granted';
CREATE INDEX grants_key_idx ON fencegate.grants (lock_key, id);

-- Refused writes, and lost renewals and late releases (disposition 'event').
CREATE TABLE fencegate.refusals (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    occurred_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    code            text NOT NULL,
    disposition     text NOT NULL CONSTRAINT refusals_disposition_known CHECK (disposition IN ('refused', 'event')),
    operation       text NOT NULL,
    table_name      text,
    lock_key        text COLLATE "C" NOT NULL,
    presented_token bigint NOT NULL,
    mark_token      bigint,
    holder_digest   text NOT NULL,
    client          text,
    principal       text NOT NULL,
    request_id      text NOT NULL,
    remote_address  text NOT NULL,
    payload_sha256  text,
    instance        text NOT NULL
);
CREATE INDEX refusals_key_idx ON fencegate.refusals (lock_key, id);
CREATE INDEX refusals_code_idx ON fencegate.refusals (code, id);

CREATE FUNCTION fencegate.forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'fencegate.% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER grants_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON fencegate.grants
    FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change();
CREATE TRIGGER refusals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON fencegate.refusals
    FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change();
CREATE TRIGGER marks_never_deleted BEFORE DELETE OR TRUNCATE ON fencegate.marks
    FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change();

CREATE FUNCTION fencegate.forbid_lowering() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.token < OLD.token OR NEW.lock_key <> OLD.lock_key THEN
        RAISE EXCEPTION 'the mark of a lock key never falls'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER marks_never_fall BEFORE UPDATE ON fencegate.marks
    FOR EACH ROW EXECUTE FUNCTION fencegate.forbid_lowering();

-- The timeline is read from the running WAL position: the control file still
-- shows the old one for a while after a promotion.
--
-- Functions on the way of a write are in PL/pgSQL, which keeps its plans; those
-- in SQL are planned at every call, which made the fence eight times as slow.
CREATE FUNCTION fencegate.timeline() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
END $$;

-- The newest life on the running timeline. The system identifier is left to
-- ensure_epoch, which every grant and every new connection of a gateway calls:
-- reading it costs as much as the rest of the fence.
CREATE FUNCTION fencegate.current_epoch() RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    here bigint := fencegate.timeline();
BEGIN
    RETURN (SELECT max(id) FROM fencegate.epochs WHERE timeline = here);
END $$;

-- Returns the life that the database is in, adding it if it is a new one. The
-- first ever has floor 0; later ones start above whatever number an
-- unreplicated tail may have taken with it.
CREATE FUNCTION fencegate.ensure_epoch() RETURNS fencegate.epochs LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e   fencegate.epochs;
    sys bigint := (pg_control_system()).system_identifier;
BEGIN
    SELECT * INTO e FROM fencegate.epochs WHERE id = fencegate.current_epoch();
    IF e.system_identifier = sys THEN
        RETURN e;
    END IF;
    LOCK TABLE fencegate.epochs IN SHARE ROW EXCLUSIVE MODE; -- one of several gateways adds it
    SELECT * INTO e FROM fencegate.epochs WHERE id = fencegate.current_epoch();
    IF e.system_identifier = sys THEN
        RETURN e;
    END IF;
    INSERT INTO fencegate.epochs (system_identifier, timeline, token_floor)
    VALUES (sys, fencegate.timeline(),
        CASE WHEN EXISTS (SELECT FROM fencegate.epochs)
             THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint
             ELSE 0 END)
    RETURNING * INTO e;
    RETURN e;
END $$;

-- A statement that waited for a lock must see what was committed meanwhile;
-- under any isolation but READ COMMITTED it would not.
CREATE FUNCTION fencegate.require_read_committed() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the fence needs READ COMMITTED, this transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'FG003';
    END IF;
END $$;

-- Grants and releases must survive a crash, whatever the role's default is.
CREATE FUNCTION fencegate.require_durable_commit() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

CREATE FUNCTION fencegate.holder_digest(p_holder text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(encode(sha256(convert_to(p_holder, 'UTF8')), 'hex'), 16)
$$;

-- Why this claim may not write; code is NULL if it may. Takes no lock. age_ms is
-- the time since the mark's grant.
CREATE FUNCTION fencegate.verdict(p_key text, p_holder text, p_token bigint,
    OUT code text, OUT mark bigint, OUT age_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    m fencegate.marks;
BEGIN
    SELECT * INTO m FROM fencegate.marks WHERE lock_key = p_key COLLATE "C";
    mark := m.token;
    age_ms := extract(epoch FROM clock_timestamp() - m.granted_at) * 1000;
    code := CASE
        WHEN m.token IS NULL                        THEN 'token_not_granted'
        WHEN p_token < m.token                      THEN 'stale_token'
        WHEN p_token > m.token                      THEN 'token_not_granted'
        WHEN p_holder <> m.holder                   THEN 'holder_mismatch'
        WHEN m.state = 'released'                   THEN 'lease_released'
        WHEN m.state = 'revoked'                    THEN 'lease_revoked'
        WHEN m.epoch IS DISTINCT FROM fencegate.current_epoch() THEN 'epoch_changed'
    END;
END $$;

-- The fence. First statement of every writing transaction: returns with the
-- mark locked until commit, so that a grant waits for this write, or raises
-- FG001 and takes the whole transaction with it. It never changes a mark.
--
-- A claim that does not match the committed mark is refused without touching
-- the row lock: marks only grow, so it can't become right by waiting.
CREATE FUNCTION fencegate.admit(p_key text, p_holder text, p_token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v record;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM FROM fencegate.marks
      WHERE lock_key = p_key COLLATE "C"
        AND token = p_token
        AND holder = p_holder
        AND state = 'held'
        AND epoch = fencegate.current_epoch()
        FOR NO KEY UPDATE;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO v FROM fencegate.verdict(p_key, p_holder, p_token);
    RAISE EXCEPTION 'refused by the fence: %', coalesce(v.code, 'epoch_changed')
        USING ERRCODE = 'FG001',
              DETAIL = json_build_object('code', coalesce(v.code, 'epoch_changed'), 'mark', v.mark::text)::text;
END $$;

-- Raises the mark to the next token, only if it still is what the caller saw
-- before it took the lease (0: no mark). Waits for the write in flight under
-- the old token. Outcomes: granted, lost_race, blocked (revoked, not yet free).
CREATE FUNCTION fencegate.raise_mark(
    p_key text, p_holder text, p_seen bigint, p_client text, p_principal text,
    OUT outcome text, OUT token bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    e   fencegate.epochs;
    new bigint;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    e := fencegate.ensure_epoch();
    IF p_seen = 0 THEN
        INSERT INTO fencegate.marks (lock_key, token, holder, state, epoch, client, granted_at)
        VALUES (p_key, greatest(1, e.token_floor), p_holder, 'held', e.id, p_client, clock_timestamp())
        ON CONFLICT (lock_key) DO NOTHING
        RETURNING marks.token INTO new;
    ELSE
        UPDATE fencegate.marks
           SET token = CASE WHEN epoch = e.id THEN marks.token + 1
                            ELSE greatest(marks.token + 1, e.token_floor) END,
               holder = p_holder,
               state = 'held',
               epoch = e.id,
               client = p_client,
               granted_at = clock_timestamp(),
               blocked_until = NULL
         WHERE lock_key = p_key COLLATE "C"
           AND marks.token = p_seen
           AND NOT (state = 'revoked' AND coalesce(blocked_until > clock_timestamp(), false))
        RETURNING marks.token INTO new;
    END IF;
    IF new IS NULL THEN
        outcome := CASE WHEN EXISTS (SELECT FROM fencegate.marks
                                      WHERE lock_key = p_key COLLATE "C" AND marks.token = p_seen)
                        THEN 'blocked' ELSE 'lost_race' END;
        RETURN;
    END IF;
    INSERT INTO fencegate.grants (event, lock_key, token, holder_digest, client, principal, epoch)
    VALUES ('granted', p_key, new, fencegate.holder_digest(p_holder), p_client, p_principal, e.id);
    outcome := 'granted';
    token := new;
END $$;

-- Closes the mark for its holder. Waits for the holder's write in flight.
-- Returns NULL when it was closed by this call, else the verdict on the claim.
CREATE FUNCTION fencegate.release_mark(p_key text, p_holder text, p_token bigint, p_principal text,
    OUT code text, OUT mark bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    m fencegate.marks;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    UPDATE fencegate.marks
       SET state = 'released'
     WHERE lock_key = p_key COLLATE "C"
       AND token = p_token
       AND holder = p_holder
       AND state = 'held'
    RETURNING * INTO m;
    IF NOT FOUND THEN
        SELECT v.code, v.mark INTO code, mark FROM fencegate.verdict(p_key, p_holder, p_token) AS v;
        RETURN;
    END IF;
    mark := m.token;
    INSERT INTO fencegate.grants (event, lock_key, token, holder_digest, client, principal, epoch)
    VALUES ('released', m.lock_key, m.token, fencegate.holder_digest(m.holder), m.client, p_principal, m.epoch);
END $$;

-- Called in the select list of every data statement, after its rows are known:
-- raises FG002 when a row lies outside the lock key, FG004 when more rows were
-- touched than the caller allowed (NULL: no bound).
CREATE FUNCTION fencegate.check_rows(p_pinned boolean, p_uncovered bigint, p_affected bigint, p_allowed bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_pinned IS NOT TRUE OR p_uncovered > 0 THEN
        RAISE EXCEPTION 'a row is not covered by the lock key' USING ERRCODE = 'FG002';
    END IF;
    IF p_affected > p_allowed THEN
        RAISE EXCEPTION '% rows affected, % allowed', p_affected, p_allowed USING ERRCODE = 'FG004';
    END IF;
    RETURN true;
END $$;

-- Called for each row that an upsert would change, as it was: raises FG002 when
-- it lies outside the lock key. A mere condition would skip the row silently.
CREATE FUNCTION fencegate.check_covered(p_covered boolean) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_covered IS NOT TRUE THEN
        RAISE EXCEPTION 'a row is not covered by the lock key' USING ERRCODE = 'FG002';
    END IF;
    RETURN true;
END $$;

-- Passes an answer's text on, or raises FG007 when it is larger than allowed.
CREATE FUNCTION fencegate.check_size(p_text text, p_max_bytes bigint) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF octet_length(p_text) > p_max_bytes THEN
        RAISE EXCEPTION 'the answer has % bytes, % are allowed', octet_length(p_text), p_max_bytes
            USING ERRCODE = 'FG007';
    END IF;
    RETURN p_text;
END $$;

SELECT fencegate.ensure_epoch();
