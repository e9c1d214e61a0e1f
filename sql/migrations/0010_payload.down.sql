ALTER TABLE fencegate.refusals DROP COLUMN payload;
