-- Back to refusals in one table, in the order of their ids.
ALTER TABLE fencegate.refusals RENAME TO refusals_by_time;
DROP FUNCTION fencegate.keep_refusals(interval), fencegate.add_refusal_week(timestamptz);

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
    instance        text NOT NULL,
    idempotency_key text
);
INSERT INTO fencegate.refusals
OVERRIDING SYSTEM VALUE
SELECT id, occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token, holder_digest,
       client, principal, request_id, remote_address, payload_sha256, instance, idempotency_key
  FROM fencegate.refusals_by_time;
SELECT setval(pg_get_serial_sequence('fencegate.refusals', 'id'), coalesce(max(id), 0) + 1, false) FROM fencegate.refusals;
DROP TABLE fencegate.refusals_by_time;

CREATE INDEX refusals_key_idx ON fencegate.refusals (lock_key, id);
CREATE INDEX refusals_code_idx ON fencegate.refusals (code, id);
CREATE TRIGGER refusals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON fencegate.refusals
    FOR EACH STATEMENT EXECUTE FUNCTION fencegate.forbid_change();
