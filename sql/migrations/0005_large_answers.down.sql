-- Back to answers that are kept whole in one row.
CREATE OR REPLACE FUNCTION fencegate.check_size(p_text text, p_max_bytes bigint) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF octet_length(p_text) > p_max_bytes THEN
        RAISE EXCEPTION 'the answer has % bytes, % are allowed', octet_length(p_text), p_max_bytes
            USING ERRCODE = 'FG007';
    END IF;
    RETURN p_text;
END $$;

CREATE OR REPLACE FUNCTION fencegate.keep_answer(p_principal text, p_key text, p_operation integer, p_affected bigint, p_rows text)
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

ALTER TABLE fencegate.answers
    ADD COLUMN affected bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN rows text[] NOT NULL DEFAULT '{}';

UPDATE fencegate.answers AS a
   SET affected = o.affected, rows = o.rows
  FROM (SELECT principal, idempotency_key,
               array_agg(affected ORDER BY operation) AS affected, array_agg(rows ORDER BY operation) AS rows
          FROM (SELECT principal, idempotency_key, operation, sum(affected)::bigint AS affected,
                       coalesce(string_agg(nullif(rows, ''), ',' ORDER BY part), '') AS rows
                  FROM fencegate.answer_parts
                 GROUP BY principal, idempotency_key, operation) AS p
         GROUP BY principal, idempotency_key) AS o
 WHERE a.principal = o.principal
   AND a.idempotency_key = o.idempotency_key;

DROP TABLE fencegate.answer_parts;
