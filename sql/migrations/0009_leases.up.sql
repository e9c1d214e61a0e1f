-- Leases for gateways whose lock service is this database (leases.backend:
-- postgres). Nothing here decides about a write: the marks do. So the table is
-- UNLOGGED. No lease waits for the disk, none comes back from a backup, and a
-- crash or a promotion ends them all, which costs holders their lease and
-- nothing else.
CREATE UNLOGGED TABLE fencegate.leases (
    lock_key text COLLATE "C" PRIMARY KEY,
    holder   text NOT NULL,
    ends_at  timestamptz NOT NULL
) WITH (fillfactor = 70); -- an extension finds room beside the row, and moves no index entry

-- How long a lease that ends then lasts from p_now on, in ms; a fraction counts
-- as a whole one, so that what is alive never looks ended.
CREATE FUNCTION fencegate.lease_left(p_ends_at timestamptz, p_now timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(ceil(extract(epoch FROM p_ends_at - p_now) * 1000), 0)::bigint
$$;

-- Takes the lease if, and only if, the key is free, or holder's already: a take
-- whose answer was lost. Tells who has it now, and for how long. A key that is
-- held is looked at without writing; each statement sees what is committed.
CREATE FUNCTION fencegate.take_lease(p_key text, p_holder text, p_ttl_ms bigint, OUT taken boolean, OUT holder text, OUT remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    LOOP
        SELECT l.holder, fencegate.lease_left(l.ends_at, clock_timestamp())
          INTO holder, remaining_ms
          FROM fencegate.leases AS l
         WHERE l.lock_key = p_key;
        IF remaining_ms > 0 THEN
            taken := holder = p_holder;
            RETURN;
        END IF;
        INSERT INTO fencegate.leases AS l (lock_key, holder, ends_at)
        VALUES (p_key, p_holder, clock_timestamp() + p_ttl_ms * interval '1 ms')
            ON CONFLICT (lock_key) DO UPDATE
           SET holder = p_holder, ends_at = clock_timestamp() + p_ttl_ms * interval '1 ms'
         WHERE l.ends_at <= clock_timestamp();
        IF FOUND THEN
            taken := true;
            holder := p_holder;
            remaining_ms := p_ttl_ms;
            RETURN;
        END IF;
    END LOOP; -- somebody else took it in between
END $$;
