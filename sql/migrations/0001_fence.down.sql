-- Forgets every mark: afterwards nothing stops a late writer.
DROP TABLE fencegate.refusals, fencegate.grants, fencegate.marks;
DROP FUNCTION
    fencegate.check_size(text, bigint),
    fencegate.check_covered(boolean),
    fencegate.check_rows(boolean, bigint, bigint, bigint),
    fencegate.release_mark(text, text, bigint, text),
    fencegate.raise_mark(text, text, bigint, text, text),
    fencegate.admit(text, text, bigint),
    fencegate.verdict(text, text, bigint),
    fencegate.holder_digest(text),
    fencegate.require_durable_commit(),
    fencegate.require_read_committed(),
    fencegate.ensure_epoch(),
    fencegate.current_epoch(),
    fencegate.timeline(),
    fencegate.forbid_lowering(),
    fencegate.forbid_change();
DROP TABLE fencegate.epochs;
