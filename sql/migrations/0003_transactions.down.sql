-- Back to one lock key in a transaction.
DROP FUNCTION
    fencegate.end_trial(),
    fencegate.etag(record),
    fencegate.check_rows(boolean, bigint, bigint, bigint, bigint),
    fencegate.keep_answer(text, text, integer, bigint, text),
    fencegate.admit(text[], text[], bigint[]);

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

CREATE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE fencegate.answers
       SET affected = affected || p_affected, rows = rows || coalesce(p_rows, '')
     WHERE principal = p_principal AND idempotency_key = p_key COLLATE "C";
    RETURN FOUND;
END $$;
