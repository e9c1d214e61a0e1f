-- Back to writes that all run as the gateway's own role.
CREATE OR REPLACE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_operation integer, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO fencegate.answer_parts (principal, idempotency_key, operation, affected, rows)
    VALUES (p_principal, p_key, p_operation, p_affected, coalesce(p_rows, ''));
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION fencegate.passed_token(p_key text, p_holder text, p_token bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT p_token FROM fencegate.verdict(p_key, p_holder, p_token) AS v WHERE v.code IS NULL);
END $$;
