-- Acquires that are answered alike when they are sent again, and revoking.

-- The grants of an acquire that carried an Idempotency-Key. What they are worth
-- now is the marks' and the lock service's to say.
CREATE TABLE fencegate.acquired (
    principal       text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    fingerprint     text NOT NULL,
    lock_keys       text[] NOT NULL,
    holders         text[] NOT NULL,
    tokens          bigint[] NOT NULL,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (principal, idempotency_key)
);
CREATE INDEX acquired_expiry_idx ON fencegate.acquired (expires_at);

ALTER TABLE fencegate.grants ADD COLUMN reason text; -- of a revocation

-- Closes the mark, whoever holds it, and keeps it from being granted for
-- p_block. Waits for the holder's write in flight. Gives the mark as it was
-- before; no row when the key was never granted.
CREATE FUNCTION fencegate.revoke_mark(p_key text, p_block interval, p_reason text, p_principal text)
RETURNS SETOF fencegate.marks LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    m fencegate.marks;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    SELECT * INTO m FROM fencegate.marks WHERE lock_key = p_key COLLATE "C" FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE fencegate.marks
       SET state = 'revoked',
           blocked_until = clock_timestamp() + p_block
     WHERE lock_key = p_key COLLATE "C";
    INSERT INTO fencegate.grants (event, lock_key, token, holder_digest, client, principal, epoch, reason)
    VALUES ('revoked', m.lock_key, m.token, fencegate.holder_digest(m.holder), m.client, p_principal, m.epoch, p_reason);
    RETURN NEXT m;
END $$;
