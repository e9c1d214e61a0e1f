-- Tombstones that know whose claims were refused, and stop no others.

-- stops is a list of {code, claims, whole}: an attempt that presents these claims
-- (whole: these and no others) is not applied any more. Each of them was the mark's
-- own when it was refused; what the mark itself refuses needs no stop, since it
-- goes on doing so. {code, rank} is what an earlier version left, which knew but
-- the sum of the tokens.
ALTER TABLE fencegate.answers ADD COLUMN stops jsonb NOT NULL DEFAULT '[]';
UPDATE fencegate.answers
   SET stops = jsonb_build_array(jsonb_build_object('code', code, 'rank', token))
 WHERE state = 'refused'
   AND code IN ('lease_expired', 'lease_lost', 'lock_scope', 'stale_token');
ALTER TABLE fencegate.answers DROP COLUMN token;

DROP FUNCTION
    fencegate.refuse_answer(text, text, text, bigint, text, interval),
    fencegate.claim_answer(text, text, text, bigint, interval);

-- The first of the stops that the claims of an attempt run into, and which of its
-- claims that is about; NULL if there is none.
CREATE FUNCTION fencegate.stopped(p_stops jsonb, p_claims jsonb, OUT code text, OUT claim integer)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    s jsonb;
BEGIN
    FOR s IN SELECT jsonb_array_elements(p_stops) LOOP
        IF s ? 'rank' THEN
            CONTINUE WHEN (SELECT sum((c ->> 'token')::numeric) FROM jsonb_array_elements(p_claims) AS c) > (s ->> 'rank')::numeric;
        ELSE
            CONTINUE WHEN NOT p_claims @> (s -> 'claims')
                       OR (s ->> 'whole')::boolean AND NOT p_claims <@ (s -> 'claims');
        END IF;
        code := s ->> 'code';
        claim := coalesce((SELECT n - 1 FROM jsonb_array_elements(p_claims) WITH ORDINALITY AS c(claim, n)
                            WHERE c.claim = s -> 'claims' -> 0), 0);
        RETURN;
    END LOOP;
END $$;

-- First statement of a writing transaction that carries a key: returns with the
-- key claimed, or raises FG005 (used for another request), FG006 (applied
-- already: replay it) or FG001 (refused already). p_claims is a list of {key,
-- token, holder}, the holder by its digest.
CREATE FUNCTION fencegate.claim_answer(
    p_principal text, p_key text, p_fingerprint text, p_claims jsonb, p_keep interval)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    a fencegate.answers;
    s record;
BEGIN
    PERFORM fencegate.require_read_committed();
    LOOP
        a := fencegate.standing_answer(p_principal, p_key, p_fingerprint);
        IF a.state = 'applied' THEN
            RAISE EXCEPTION 'applied already' USING ERRCODE = 'FG006';
        ELSIF a.state = 'refused' THEN
            SELECT * INTO s FROM fencegate.stopped(a.stops, p_claims);
            IF s.code IS NOT NULL THEN
                RAISE EXCEPTION 'refused already: %', s.code
                    USING ERRCODE = 'FG001', DETAIL = json_build_object('code', s.code, 'claim', s.claim)::text;
            END IF;
            UPDATE fencegate.answers
               SET state = 'applied', code = NULL, stops = '[]', expires_at = clock_timestamp() + p_keep
             WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
            RETURN;
        END IF;
        INSERT INTO fencegate.answers (principal, idempotency_key, fingerprint, state, expires_at)
        VALUES (p_principal, p_key, p_fingerprint, 'applied', clock_timestamp() + p_keep)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND; -- else another attempt has just ended: look again
    END LOOP;
END $$;

-- Leaves the tombstone of a refused request. Raises FG006 if an earlier attempt
-- has been applied after all: replay beats refusal. A stop for an older token of a
-- key than the new ones have is dropped: the mark has left that behind.
CREATE FUNCTION fencegate.refuse_answer(
    p_principal text, p_key text, p_fingerprint text, p_code text, p_stops jsonb, p_keep interval)
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
               SET code = p_code, expires_at = clock_timestamp() + p_keep,
                   stops = (
                       SELECT coalesce(jsonb_agg(DISTINCT s), '[]')
                         FROM jsonb_array_elements(a.stops || p_stops) AS s
                        WHERE NOT EXISTS (
                              SELECT
                                FROM jsonb_array_elements(s -> 'claims') AS o,
                                     jsonb_array_elements(p_stops) AS p,
                                     jsonb_array_elements(p -> 'claims') AS n
                               WHERE o ->> 'key' = n ->> 'key'
                                 AND (o ->> 'token')::bigint < (n ->> 'token')::bigint))
             WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
            RETURN;
        END IF;
        INSERT INTO fencegate.answers (principal, idempotency_key, fingerprint, state, code, stops, expires_at)
        VALUES (p_principal, p_key, p_fingerprint, 'refused', p_code, p_stops, clock_timestamp() + p_keep)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
END $$;
