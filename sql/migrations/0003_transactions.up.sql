-- Several lock keys and several operations in one transaction.

-- The fence. First statement of every writing transaction, or second after the
-- claim of an idempotency key: returns with every mark locked until commit, so
-- that a grant waits for this write, or raises FG001 and takes the whole
-- transaction with it. It never changes a mark. The caller gives the keys in
-- byte order, so that two transactions under the same keys can't deadlock.
--
-- A claim that does not match the committed mark is refused without touching
-- the row lock: marks only grow, so it can't become right by waiting. All
-- claims that fail are told, each by its place among the arguments.
DROP FUNCTION fencegate.admit(text, text, bigint);
CREATE FUNCTION fencegate.admit(p_keys text[], p_holders text[], p_tokens bigint[]) RETURNS void
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
            CONTINUE WHEN FOUND;
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

-- Called in the select list of each data statement of such a transaction. An
-- operation (numbered from 0) can be made of several statements.
DROP FUNCTION fencegate.keep_answer(text, text, bigint, text);
CREATE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_operation integer, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n integer := p_operation + 1;
BEGIN
    UPDATE fencegate.answers
       SET affected[n] = coalesce(affected[n], 0) + p_affected,
           rows[n] = concat_ws(',', nullif(rows[n], ''), coalesce(p_rows, ''))
     WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
    RETURN FOUND;
END $$;

-- Called in the select list of every data statement, after its rows are known:
-- raises FG002 when a row lies outside the lock keys, FG004 when more rows were
-- touched than the caller allowed, FG008 when fewer (NULL: no bound).
DROP FUNCTION fencegate.check_rows(boolean, bigint, bigint, bigint);
CREATE FUNCTION fencegate.check_rows(
    p_pinned boolean, p_uncovered bigint, p_affected bigint, p_least bigint, p_most bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_pinned IS NOT TRUE OR p_uncovered > 0 THEN
        RAISE EXCEPTION 'a row is not covered by the lock key' USING ERRCODE = 'FG002';
    END IF;
    IF p_affected > p_most THEN
        RAISE EXCEPTION '% rows affected, % allowed', p_affected, p_most USING ERRCODE = 'FG004';
    END IF;
    IF p_affected < p_least THEN
        RAISE EXCEPTION '% rows affected, % expected', p_affected, p_least USING ERRCODE = 'FG008';
    END IF;
    RETURN true;
END $$;

-- What a row is known by in If-Match: its contents, whatever the session's
-- settings would make them look like.
CREATE FUNCTION fencegate.etag(p_row record) RETURNS text LANGUAGE plpgsql STABLE
    SET "TimeZone" = 'UTC'
    SET "DateStyle" = 'ISO, MDY'
    SET "IntervalStyle" = 'postgres'
    SET extra_float_digits = 1
    SET bytea_output = 'hex'
AS $$
BEGIN
    RETURN left(encode(sha256(convert_to(p_row::text, 'UTF8')), 'hex'), 32);
END $$;

-- Last statement of a trial: what COMMIT would check is checked, and FG009 takes
-- everything back.
CREATE FUNCTION fencegate.end_trial() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    RAISE EXCEPTION 'a trial ends here' USING ERRCODE = 'FG009';
END $$;
