-- Back to tables without a fence column.
DROP FUNCTION
    fencegate.check_row_token(bigint, bigint, text),
    fencegate.raise_mark(text, text, bigint, bigint, text, text);

CREATE FUNCTION fencegate.raise_mark(
    p_key text, p_holder text, p_seen bigint, p_client text, p_principal text,
    OUT outcome text, OUT token bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    e   fencegate.epochs;
    new bigint;
BEGIN
    PERFORM fencegate.require_read_committed();
    PERFORM fencegate.require_durable_commit();
    e := fencegate.ensure_epoch();
    IF p_seen = 0 THEN
        INSERT INTO fencegate.marks (lock_key, token, holder, state, epoch, client, granted_at)
        VALUES (p_key, greatest(1, e.token_floor), p_holder, 'held', e.id, p_client, clock_timestamp())
        ON CONFLICT (lock_key) DO NOTHING
        RETURNING marks.token INTO new;
    ELSE
        UPDATE fencegate.marks
           SET token = CASE WHEN epoch = e.id THEN marks.token + 1
                            ELSE greatest(marks.token + 1, e.token_floor) END,
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
