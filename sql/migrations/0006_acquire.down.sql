DROP FUNCTION fencegate.revoke_mark(text, interval, text, text);
ALTER TABLE fencegate.grants DROP COLUMN reason;
DROP TABLE fencegate.acquired;
