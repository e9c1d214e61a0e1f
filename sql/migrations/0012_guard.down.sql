-- Back to writers that only the gateway fences. A guard's trigger needs what goes
-- here: it would refuse every write.
DO $$
BEGIN
    IF EXISTS (SELECT FROM fencegate.guards) THEN
        RAISE EXCEPTION 'there are guards on %', (SELECT string_agg(relation::text, ', ') FROM fencegate.guards)
            USING HINT = 'gateway protect TABLE --remove --apply';
    END IF;
END $$;

DROP FUNCTION fencegate.admit(text[], text[], bigint[], boolean);
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

DROP FUNCTION
    fencegate.unfenced(text, text, text, text[]),
    fencegate.admit(text, bigint, text),
    fencegate.prove(text[], text[], bigint[]),
    fencegate.remember(text[], text[]);
DROP TABLE fencegate.admissions, fencegate.guards;
