-- Tables that keep a token in each row themselves (fence_column).

-- Raises the mark to the next token, only if it still is what the caller saw
-- before it took the lease (0: no mark), and above every token that the rows
-- under this key have in a fence column (0: none). Waits for the write in flight
-- under the old token. Outcomes: granted, lost_race, blocked (revoked, not yet
-- free).
DROP FUNCTION fencegate.raise_mark(text, text, bigint, text, text);
CREATE FUNCTION fencegate.raise_mark(
    p_key text, p_holder text, p_seen bigint, p_above bigint, p_client text, p_principal text,
    OUT outcome text, OUT token bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    e   fencegate.epochs;
    new bigint;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    IF p_above = 9223372036854775807 THEN
        RAISE EXCEPTION 'a row under this lock key has the highest token there is in its fence column'
            USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    e := fencegate.ensure_epoch();
    IF p_seen = 0 THEN
        INSERT INTO fencegate.marks (lock_key, token, holder, state, epoch, client, granted_at)
        VALUES (p_key, greatest(1, e.token_floor, p_above + 1), p_holder, 'held', e.id, p_client, clock_timestamp())
        ON CONFLICT (lock_key) DO NOTHING
        RETURNING marks.token INTO new;
    ELSE
        UPDATE fencegate.marks
           SET token = greatest(marks.token + 1, p_above + 1,
                                CASE WHEN epoch = e.id THEN 1 ELSE e.token_floor END),
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

-- Called for each row that is updated or deleted, as it was: raises FG010 when it
-- was written under a higher token than the one presented for its lock key.
CREATE FUNCTION fencegate.check_row_token(p_row_token bigint, p_token bigint, p_key text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_row_token > p_token THEN
        RAISE EXCEPTION 'the row was written under token %, this write has %', p_row_token, p_token
            USING ERRCODE = 'FG010', DETAIL = json_build_object('key', p_key, 'mark', p_row_token::text)::text;
    END IF;
    RETURN true;
END $$;
