-- A column of every type that PostgreSQL has and takes values of, twice: wide is
-- written through the gateway, mirror by PostgreSQL's own INSERT of the same
-- literals. A row of one is held against the row of the other.
CREATE EXTENSION citext;
CREATE EXTENSION cube;
CREATE EXTENSION hstore;
CREATE EXTENSION isn;
CREATE EXTENSION lo;
CREATE EXTENSION ltree;
CREATE EXTENSION pg_trgm;
CREATE EXTENSION seg;

CREATE SCHEMA legacy;
SET search_path = legacy, public;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'very happy', 'it''s "fine", {really} \ (so)', 'größe', '', 'NULL');
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE deep AS (
    id bigint, p pair, ps pair[], m mood, r int4range, at timestamptz, f double precision,
    bin bytea, n numeric(6,2), v varchar(3), j jsonb, "Odd, ""name""" text
);
CREATE TYPE floatrange AS RANGE (subtype = double precision, subtype_diff = float8mi);

CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN small_positive AS positive CHECK (VALUE < 100);
CREATE DOMAIN "Odd, ""domain""" AS text CHECK (VALUE <> 'no');
CREATE DOMAIN char3 AS char(3);
CREATE DOMAIN varchar3 AS varchar(3);
CREATE DOMAIN bit3 AS bit(3);
CREATE DOMAIN price AS numeric(6,2);
CREATE DOMAIN days AS interval day;
CREATE DOMAIN ints AS integer[] CHECK (cardinality(VALUE) < 4);
CREATE DOMAIN good_pair AS pair CHECK ((VALUE).a > 0);
CREATE DOMAIN object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');
CREATE DOMAIN image AS bytea;
CREATE DOMAIN email AS citext CHECK (VALUE LIKE '%@%');
CREATE DOMAIN year AS int4range;

CREATE TABLE wide (
    grp text NOT NULL,
    id  integer NOT NULL,

    int2           smallint,
    int4           integer,
    int8           bigint,
    "numeric"      numeric,
    numeric_38     numeric(38,0),
    numeric_12_2   numeric(12,2),
    numeric_1000   numeric(1000,500),
    float4         real,
    float8         double precision,
    money          money,
    bool           boolean,

    text           text,
    text_c         text COLLATE "C",
    varchar        varchar,
    varchar_3      varchar(3),
    bpchar         bpchar,
    char_5         char(5),
    name           name,
    "char"         "char",
    citext         citext,
    bit            bit,
    bit_5          bit(5),
    varbit         varbit,
    varbit_5       varbit(5),
    bytea          bytea,
    uuid           uuid,
    mood           mood,

    date           date,
    "time"         time,
    time_0         time(0),
    timetz         timetz,
    "timestamp"    timestamp,
    timestamp_3    timestamp(3),
    timestamptz    timestamptz,
    timestamptz_0  timestamptz(0),
    "interval"     interval,
    interval_2     interval(2),
    interval_day   interval day,
    interval_month interval year to month,

    json           json,
    jsonb          jsonb,
    jsonpath       jsonpath,
    xml            xml,
    tsvector       tsvector,
    tsquery        tsquery,

    int4range      int4range,
    int8range      int8range,
    numrange       numrange,
    daterange      daterange,
    tsrange        tsrange,
    tstzrange      tstzrange,
    floatrange     floatrange,
    int4multirange int4multirange,
    int8multirange int8multirange,
    nummultirange  nummultirange,
    datemultirange datemultirange,
    tsmultirange   tsmultirange,
    tstzmultirange tstzmultirange,
    floatmultirange floatmultirange,

    inet           inet,
    cidr           cidr,
    macaddr        macaddr,
    macaddr8       macaddr8,

    point          point,
    line           line,
    lseg           lseg,
    box            box,
    path           path,
    polygon        polygon,
    circle         circle,

    oid            oid,
    xid            xid,
    xid8           xid8,
    cid            cid,
    tid            tid,
    pg_lsn         pg_lsn,
    txid_snapshot  txid_snapshot,
    pg_snapshot    pg_snapshot,
    refcursor      refcursor,
    aclitem        aclitem,
    regclass       regclass,
    regcollation   regcollation,
    regconfig      regconfig,
    regdictionary  regdictionary,
    regnamespace   regnamespace,
    regoper        regoper,
    regoperator    regoperator,
    regproc        regproc,
    regprocedure   regprocedure,
    regrole        regrole,
    regtype        regtype,

    hstore         hstore,
    ltree          ltree,
    lquery         lquery,
    ltxtquery      ltxtquery,
    cube           cube,
    seg            seg,
    isbn13         isbn13,
    lo             lo,

    pair           pair,
    deep           deep,

    positive       positive,
    small_positive small_positive,
    odd_domain     "Odd, ""domain""",
    char3          char3,
    varchar3       varchar3,
    bit3           bit3,
    price          price,
    days           days,
    ints           ints,
    good_pair      good_pair,
    object         object,
    image          image,
    email          email,
    year           year,

    bools          boolean[],
    int4s          integer[],
    int8s          bigint[],
    numerics       numeric[],
    prices         numeric(6,2)[],
    float8s        double precision[],
    texts          text[],
    varchar_3s     varchar(3)[],
    char_3s        char(3)[],
    bit_3s         bit(3)[],
    names          name[],
    byteas         bytea[],
    uuids          uuid[],
    moods          mood[],
    dates          date[],
    times          time[],
    timestamptzs   timestamptz[],
    intervals      interval[],
    jsons          json[],
    jsonbs         jsonb[],
    inets          inet[],
    points         point[],
    boxes          box[],
    int4ranges     int4range[],
    multiranges    int4multirange[],
    tsvectors      tsvector[],
    xmls           xml[],
    citexts        citext[],
    ltrees         ltree[],
    hstores        hstore[],
    pairs          pair[],
    positives      positive[],
    domain_of_arrays ints[],
    int2vector     int2vector,
    oidvector      oidvector,

    PRIMARY KEY (grp, id)
);
CREATE TABLE mirror (LIKE wide INCLUDING ALL);
