-- Refusals in partitions of a week each, so that retention drops whole ones, and
-- in the order of their time, so that a page deep in the past costs no more than
-- the newest.
ALTER TABLE fencegate.refusals RENAME TO refusals_before;

CREATE TABLE fencegate.refusals (
    id              bigint GENERATED ALWAYS AS IDENTITY,
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
    idempotency_key text,
    instance        text NOT NULL,
    PRIMARY KEY (occurred_at, id)
) PARTITION BY RANGE (occurred_at);

-- One for each filter, in the order of the pages.
CREATE INDEX refusals_by_id ON fencegate.refusals (id);
CREATE INDEX refusals_by_key ON fencegate.refusals (lock_key, occurred_at, id);
CREATE INDEX refusals_by_code ON fencegate.refusals (code, occurred_at, id);
CREATE INDEX refusals_by_table ON fencegate.refusals (table_name, occurred_at, id);
CREATE INDEX refusals_by_principal ON fencegate.refusals (principal, occurred_at, id);

-- Row triggers come with every partition, statement triggers don't: see
-- keep_refusals.
CREATE TRIGGER refusals_append_only BEFORE UPDATE OR DELETE ON fencegate.refusals
    FOR EACH ROW EXECUTE FUNCTION fencegate.forbid_change();
CREATE TRIGGER refusals_never_truncated BEFORE TRUNCATE ON fencegate.refusals
    FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change();

-- Makes the partition for the week of p_day, if there is none. Attached, not made
-- in place: that would wait for everybody who reads, and everybody for it.
CREATE FUNCTION fencegate.add_refusal_week(p_day timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz := date_trunc('week', p_day, 'UTC');
    name  text := 'refusals_' || to_char(first AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
    IF to_regclass('fencegate.' || name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE fencegate.%I (LIKE fencegate.refusals INCLUDING CONSTRAINTS)', name);
    EXECUTE format('CREATE TRIGGER refusals_never_truncated BEFORE TRUNCATE ON fencegate.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change()', name);
    EXECUTE format('ALTER TABLE fencegate.refusals ATTACH PARTITION fencegate.%I FOR VALUES FROM (%L) TO (%L)',
        name, first, first + interval '7 days');
END $$;

-- Makes the partitions of this week and the next, and drops those whose last
-- record is older than p_keep, but at least a day old. Gateways call it often, and
-- as often as they like: it does what is left to do. A lock that it does not get
-- at once it leaves for the next time, so that recording never waits for it long.
CREATE FUNCTION fencegate.keep_refusals(p_keep interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '200ms'
AS $$
DECLARE
    old     text;
    dropped integer := 0;
    cut     timestamptz := date_trunc('week', clock_timestamp() - greatest(p_keep, interval '1 day'), 'UTC');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('fencegate.keep_refusals'));
    PERFORM fencegate.add_refusal_week(clock_timestamp());
    PERFORM fencegate.add_refusal_week(clock_timestamp() + interval '7 days');
    FOR old IN
        SELECT c.relname
          FROM pg_inherits AS i
          JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'fencegate.refusals'::regclass
           AND to_timestamp(right(c.relname, 8) || '+00', 'YYYYMMDDTZH') < cut
         ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE fencegate.%I', old);
            dropped := dropped + 1;
        EXCEPTION WHEN lock_not_available THEN
            EXIT;
        END;
    END LOOP;
    RETURN dropped;
END $$;
REVOKE EXECUTE ON FUNCTION fencegate.add_refusal_week(timestamptz), fencegate.keep_refusals(interval) FROM PUBLIC;

SELECT fencegate.add_refusal_week(day)
  FROM (SELECT DISTINCT date_trunc('week', occurred_at, 'UTC') AS day FROM fencegate.refusals_before) AS weeks;
SELECT fencegate.keep_refusals('10 years');
INSERT INTO fencegate.refusals (id, occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token,
       holder_digest, client, principal, request_id, remote_address, payload_sha256, idempotency_key, instance)
OVERRIDING SYSTEM VALUE
SELECT id, occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token,
       holder_digest, client, principal, request_id, remote_address, payload_sha256, idempotency_key, instance
  FROM fencegate.refusals_before;
SELECT setval(pg_get_serial_sequence('fencegate.refusals', 'id'), coalesce(max(id), 0) + 1, false) FROM fencegate.refusals;
DROP TABLE fencegate.refusals_before;
