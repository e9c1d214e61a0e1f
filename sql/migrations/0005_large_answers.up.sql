-- Answers made of many statements: kept piece by piece, and bounded together.

-- What each statement of an applied request answered, in the order of part. An
-- operation (numbered from 0) can be made of several statements. Kept in the
-- answer's own row, every piece would write all those before it anew.
CREATE TABLE fencegate.answer_parts (
    principal       text NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    part            bigint GENERATED ALWAYS AS IDENTITY,
    operation       integer NOT NULL,
    affected        bigint NOT NULL,
    rows            text NOT NULL,
    PRIMARY KEY (principal, idempotency_key, part),
    FOREIGN KEY (principal, idempotency_key) REFERENCES fencegate.answers ON DELETE CASCADE
);

INSERT INTO fencegate.answer_parts (principal, idempotency_key, operation, affected, rows)
SELECT principal, idempotency_key, n - 1, affected[n], rows[n]
  FROM fencegate.answers, generate_subscripts(affected, 1) AS n
 WHERE state = 'applied'
 ORDER BY principal, idempotency_key, n;

ALTER TABLE fencegate.answers DROP COLUMN affected, DROP COLUMN rows;

-- Called in the select list of each data statement of such a transaction.
CREATE OR REPLACE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_operation integer, p_affected bigint, p_rows text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO fencegate.answer_parts (principal, idempotency_key, operation, affected, rows)
    VALUES (p_principal, p_key, p_operation, p_affected, coalesce(p_rows, ''));
    RETURN true;
END $$;

-- Passes an answer's text on, or raises FG007 when it and the others of this
-- transaction are larger together than allowed.
CREATE OR REPLACE FUNCTION fencegate.check_size(p_text text, p_max_bytes bigint) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n bigint := coalesce(octet_length(p_text), 0)
              + coalesce(nullif(current_setting('fencegate.answered', true), ''), '0')::bigint;
BEGIN
    IF n > p_max_bytes THEN
        RAISE EXCEPTION 'the answer has % bytes or more, % are allowed', n, p_max_bytes
            USING ERRCODE = 'FG007';
    END IF;
    PERFORM set_config('fencegate.answered', n::text, true);
    RETURN p_text;
END $$;
