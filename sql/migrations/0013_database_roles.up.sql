-- Writes that run as a database role of their principal's: such a role may use this
-- schema and has no right to its tables.

-- Called in the select list of each data statement of a transaction that has claimed
-- the key. Whoever may call it can keep nothing under a key that another transaction
-- has claimed.
CREATE OR REPLACE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_operation integer, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO fencegate.answer_parts (principal, idempotency_key, operation, affected, rows)
    SELECT p_principal, p_key, p_operation, p_affected, coalesce(p_rows, '')
      FROM fencegate.answers
     WHERE principal = p_principal
       AND idempotency_key = p_key COLLATE "C"
       AND state = 'applied'
       AND xmin = pg_current_xact_id()::xid;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction has not claimed the idempotency key' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN true;
END $$;

-- The token, if it is its mark's; a fence column takes no other.
CREATE OR REPLACE FUNCTION fencegate.passed_token(p_key text, p_holder text, p_token bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT p_token FROM fencegate.verdict(p_key, p_holder, p_token) AS v WHERE v.code IS NULL);
END $$;
