-- Tables in observe mode: a write that the fence would have refused is applied,
-- and recorded in its own transaction with the disposition 'admitted'.

-- What was recorded so by this version and then taken back by its down script is
-- called an event, which only a renewal or a release can be. The partitions have
-- the constraint as their own as well.
ALTER TABLE fencegate.refusals DROP CONSTRAINT refusals_disposition_known;
DO $$
DECLARE
    week regclass;
BEGIN
    FOR week IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'fencegate.refusals'::regclass LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS refusals_disposition_known', week);
    END LOOP;
END $$;
DROP TRIGGER refusals_append_only ON fencegate.refusals;
UPDATE fencegate.refusals
   SET disposition = 'admitted'
 WHERE disposition = 'event'
   AND operation NOT IN ('renew', 'release');
CREATE TRIGGER refusals_append_only BEFORE UPDATE OR DELETE ON fencegate.refusals
    FOR EACH ROW EXECUTE FUNCTION fencegate.forbid_change();
ALTER TABLE fencegate.refusals ADD CONSTRAINT refusals_disposition_known
    CHECK (disposition IN ('refused', 'event', 'admitted'));
CREATE INDEX refusals_by_disposition ON fencegate.refusals (disposition, occurred_at, id);

-- The fence, as it was, and with p_observe: then nothing is refused. The marks of
-- the claims that match are locked all the same, so that a grant waits for the
-- write of its key's own holder; the others are left alone.
DROP FUNCTION fencegate.admit(text[], text[], bigint[]);
CREATE FUNCTION fencegate.admit(p_keys text[], p_holders text[], p_tokens bigint[], p_observe boolean DEFAULT false) RETURNS void
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
END $$;

-- The first thing about rows that an observed write would have been refused for,
-- kept until record_admitted.
CREATE FUNCTION fencegate.note(p_finding jsonb) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF coalesce(current_setting('fencegate.observed', true), '') = '' THEN
        PERFORM set_config('fencegate.observed', p_finding::text, true);
    END IF;
END $$;

-- In place of check_covered, and of what check_rows says of the scope.
CREATE FUNCTION fencegate.note_covered(p_covered boolean, p_operation integer) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_covered IS NOT TRUE THEN
        PERFORM fencegate.note(jsonb_build_object('code', 'lock_scope', 'operation', p_operation));
    END IF;
    RETURN true;
END $$;

-- In place of check_row_token.
CREATE FUNCTION fencegate.note_row_token(p_row_token bigint, p_token bigint, p_key text, p_operation integer)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_row_token > p_token THEN
        PERFORM fencegate.note(jsonb_build_object(
            'code', 'stale_token', 'operation', p_operation, 'key', p_key, 'mark', p_row_token::text));
    END IF;
    RETURN true;
END $$;

-- The token, if it is its mark's; a fence column takes no other.
CREATE FUNCTION fencegate.passed_token(p_key text, p_holder text, p_token bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT p_token FROM fencegate.verdict(p_key, p_holder, p_token) AS v WHERE v.code IS NULL);
END $$;

-- Records what an observed write would have been refused for, in the write's own
-- transaction: the record is there if and only if the write is. It is the
-- transaction's last statement, so that the record's time is close to its commit.
--
-- p_codes has what the lease check found about each claim, and p_marks the mark
-- that it saw; where it found nothing ('') the mark decides, whose row is locked
-- if the claim matches. What is wrong about rows counts only if all claims are
-- right, as it would under enforcement.
--
-- Gives a list of {claim, code, mark, operation, id, error}, NULL if there was
-- nothing. A record that can't be written does not take the write with it: it has
-- an error in place of its id.
CREATE FUNCTION fencegate.record_admitted(
    p_keys text[], p_holders text[], p_tokens bigint[], p_codes text[], p_marks bigint[], p_about jsonb, p_payload text)
RETURNS jsonb LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '200ms'
AS $$
DECLARE
    v        record;
    f        jsonb;
    place    jsonb;
    n        integer;
    new      bigint;
    findings jsonb := '[]';
    answer   jsonb;
BEGIN
    FOR i IN 1 .. cardinality(p_keys) LOOP
        IF p_codes[i] = '' THEN
            SELECT w.code, w.mark INTO v FROM fencegate.verdict(p_keys[i], p_holders[i], p_tokens[i]) AS w;
        ELSE
            SELECT p_codes[i] AS code, nullif(p_marks[i], 0) AS mark INTO v;
        END IF;
        IF v.code IS NOT NULL THEN
            findings := findings || jsonb_build_object('claim', i - 1, 'code', v.code, 'mark', v.mark::text);
        END IF;
    END LOOP;
    IF findings = '[]' AND coalesce(current_setting('fencegate.observed', true), '') <> '' THEN
        f := current_setting('fencegate.observed')::jsonb;
        findings := jsonb_build_array(f || jsonb_build_object('claim', coalesce(array_position(p_keys, f ->> 'key'), 1) - 1));
    END IF;
    FOR f IN SELECT jsonb_array_elements(findings) LOOP
        n := (f ->> 'claim')::integer + 1;
        place := coalesce(p_about -> 'operations' -> (f ->> 'operation')::integer, p_about);
        BEGIN
            INSERT INTO fencegate.refusals (code, disposition, operation, table_name, lock_key,
                   presented_token, mark_token, holder_digest, principal, request_id, remote_address,
                   payload_sha256, idempotency_key, payload, instance, client)
            VALUES (f ->> 'code', 'admitted', place ->> 'operation', nullif(place ->> 'table', ''), p_keys[n],
                   p_tokens[n], (f ->> 'mark')::bigint, CASE WHEN p_holders[n] = '' THEN '' ELSE fencegate.holder_digest(p_holders[n]) END,
                   p_about ->> 'principal', p_about ->> 'request_id', p_about ->> 'remote_address',
                   nullif(p_about ->> 'payload_sha256', ''), nullif(p_about ->> 'idempotency_key', ''),
                   nullif(p_payload, '')::json, p_about ->> 'instance',
                   (SELECT nullif(g.client, '') FROM fencegate.grants AS g
                     WHERE g.lock_key = p_keys[n] COLLATE "C" AND g.token = p_tokens[n] AND g.event = 'granted'))
            RETURNING id INTO new;
            f := f || jsonb_build_object('id', new::text);
        EXCEPTION WHEN OTHERS THEN
            f := f || jsonb_build_object('error', SQLERRM);
        END;
        answer := coalesce(answer, '[]') || f;
    END LOOP;
    RETURN answer;
END $$;
