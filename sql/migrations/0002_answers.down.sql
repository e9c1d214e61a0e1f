ALTER TABLE fencegate.refusals DROP COLUMN idempotency_key;
DROP FUNCTION
    fencegate.refuse_answer(text, text, text, bigint, text, interval),
    fencegate.keep_answer(text, text, bigint, text),
    fencegate.claim_answer(text, text, text, bigint, interval),
    fencegate.standing_answer(text, text, text);
DROP TABLE fencegate.answers;
