-- Back to tables that are all enforced. Records of admitted writes stay, as events
-- of the operations that they were.
DROP FUNCTION
    fencegate.record_admitted(text[], text[], bigint[], text[], bigint[], jsonb, text),
    fencegate.passed_token(text, text, bigint),
    fencegate.note_row_token(bigint, bigint, text, integer),
    fencegate.note_covered(boolean, integer),
    fencegate.note(jsonb),
    fencegate.admit(text[], text[], bigint[], boolean);

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

DROP INDEX fencegate.refusals_by_disposition;
DROP TRIGGER refusals_append_only ON fencegate.refusals;
UPDATE fencegate.refusals SET disposition = 'event' WHERE disposition = 'admitted';
CREATE TRIGGER refusals_append_only BEFORE UPDATE OR DELETE ON fencegate.refusals
    FOR EACH ROW EXECUTE FUNCTION fencegate.forbid_change();
ALTER TABLE fencegate.refusals DROP CONSTRAINT refusals_disposition_known;
ALTER TABLE fencegate.refusals ADD CONSTRAINT refusals_disposition_known CHECK (disposition IN ('refused', 'event'));
