-- The answers to requests that carried an Idempotency-Key: claimed and filled in
-- the write's own transaction, so that an answer is there if and only if the
-- write is. A refused request leaves a tombstone, so that an earlier attempt
-- still on its way can't commit after the caller was told "not applied".
CREATE TABLE fencegate.answers (
    principal       text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    fingerprint     text NOT NULL,
    state           text NOT NULL CONSTRAINT answers_state_known CHECK (state IN ('applied', 'refused')),
    token           bigint NOT NULL, -- refused: the highest token it was refused under
    code            text,            -- refused: why
    affected        bigint[] NOT NULL DEFAULT '{}',
    rows            text[] NOT NULL DEFAULT '{}',
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (principal, idempotency_key)
);
CREATE INDEX answers_expiry_idx ON fencegate.answers (expires_at);

-- What stands under a key already. Waits for an attempt in flight.
CREATE FUNCTION fencegate.standing_answer(p_principal text, p_key text, p_fingerprint text)
RETURNS fencegate.answers LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    a fencegate.answers;
BEGIN
    SELECT * INTO a FROM fencegate.answers
     WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C"
       FOR UPDATE;
    IF FOUND AND a.expires_at <= clock_timestamp() THEN
        DELETE FROM fencegate.answers
         WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
        RETURN NULL;
    END IF;
    IF FOUND AND a.fingerprint <> p_fingerprint THEN
        RAISE EXCEPTION 'the idempotency key was used for another request' USING ERRCODE = 'FG005';
    END IF;
    RETURN a;
END $$;

-- First statement of a writing transaction that carries a key: returns with the
-- key claimed, or raises FG005 (used for another request), FG006 (applied
-- already: replay it) or FG001 (refused already, and not under a newer token).
CREATE FUNCTION fencegate.claim_answer(
    p_principal text, p_key text, p_fingerprint text, p_token bigint, p_keep interval)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    a fencegate.answers;
BEGIN
    PERFORM fencegate.require_read_committed();
    LOOP
        a := fencegate.standing_answer(p_principal, p_key, p_fingerprint);
        IF a.state = 'applied' THEN
            RAISE EXCEPTION 'applied already' USING ERRCODE = 'FG006';
        ELSIF a.state = 'refused' AND p_token <= a.token THEN
            RAISE EXCEPTION 'refused already: %', a.code
                USING ERRCODE = 'FG001', DETAIL = json_build_object('code', a.code)::text;
        ELSIF a.state = 'refused' THEN
            UPDATE fencegate.answers
               SET state = 'applied', token = p_token, code = NULL, expires_at = clock_timestamp() + p_keep
             WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
            RETURN;
        END IF;
        INSERT INTO fencegate.answers (principal, idempotency_key, fingerprint, state, token, expires_at)
        VALUES (p_principal, p_key, p_fingerprint, 'applied', p_token, clock_timestamp() + p_keep)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND; -- else another attempt has just ended: look again
    END LOOP;
END $$;

-- Called in the select list of each data statement of such a transaction.
CREATE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE fencegate.answers
       SET affected = affected || p_affected, rows = rows || coalesce(p_rows, '')
     WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
    RETURN FOUND;
END $$;

-- Leaves the tombstone of a refused request. Raises FG006 if an earlier attempt
-- has been applied after all: replay beats refusal.
CREATE FUNCTION fencegate.refuse_answer(
    p_principal text, p_key text, p_fingerprint text, p_token bigint, p_code text, p_keep interval)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    a fencegate.answers;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    LOOP
        a := fencegate.standing_answer(p_principal, p_key, p_fingerprint);
        IF a.state = 'applied' THEN
            RAISE EXCEPTION 'applied already' USING ERRCODE = 'FG006';
        ELSIF a.state = 'refused' THEN
            UPDATE fencegate.answers
               SET token = greatest(token, p_token), code = p_code, expires_at = clock_timestamp() + p_keep
             WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
            RETURN;
        END IF;
        INSERT INTO fencegate.answers (principal, idempotency_key, fingerprint, state, token, code, expires_at)
        VALUES (p_principal, p_key, p_fingerprint, 'refused', p_token, p_code, clock_timestamp() + p_keep)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
END $$;

ALTER TABLE fencegate.refusals ADD COLUMN idempotency_key text;
