-- Back to tombstones that know the sum of the refused tokens.
DROP FUNCTION
    fencegate.refuse_answer(text, text, text, text, jsonb, interval),
    fencegate.claim_answer(text, text, text, jsonb, interval),
    fencegate.stopped(jsonb, jsonb);

-- A tombstone without stops gets a sum that stops nothing.
ALTER TABLE fencegate.answers ADD COLUMN token bigint NOT NULL DEFAULT 0;
UPDATE fencegate.answers
   SET token = least(9223372036854775807, (
           SELECT coalesce(max(coalesce((s ->> 'rank')::numeric, (
                  SELECT sum((c ->> 'token')::numeric) FROM jsonb_array_elements(s -> 'claims') AS c))), 0)
             FROM jsonb_array_elements(stops) AS s));
ALTER TABLE fencegate.answers
    ALTER COLUMN token DROP DEFAULT,
    DROP COLUMN stops;

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
