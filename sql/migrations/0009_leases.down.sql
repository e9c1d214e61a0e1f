DROP FUNCTION fencegate.take_lease(text, text, bigint);
DROP FUNCTION fencegate.lease_left(timestamptz, timestamptz);
DROP TABLE fencegate.leases;
