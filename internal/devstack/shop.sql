-- A small legacy schema: no fencing column, no trigger of the gateway's, types
-- as one finds them.
CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.inventory (
    sku         varchar(40) PRIMARY KEY,
    description text NOT NULL DEFAULT '',
    warehouse   char(3) NOT NULL DEFAULT 'MUC',
    available   integer NOT NULL DEFAULT 0 CONSTRAINT inventory_not_negative CHECK (available >= 0),
    unit_price  numeric(12,2),
    attributes  jsonb,
    updated_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS shop.orders (
    order_no  text PRIMARY KEY,
    id        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    customer  uuid NOT NULL,
    placed_on date NOT NULL DEFAULT current_date,
    total     numeric(14,2) NOT NULL DEFAULT 0,
    paid      boolean NOT NULL DEFAULT false,
    note      text
);

CREATE TABLE IF NOT EXISTS shop.order_lines (
    order_no text REFERENCES shop.orders (order_no) DEFERRABLE INITIALLY DEFERRED,
    line     smallint,
    sku      varchar(40) NOT NULL REFERENCES shop.inventory (sku),
    quantity integer NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (order_no, line)
);

INSERT INTO shop.inventory (sku, description, available, unit_price, attributes) VALUES
    ('SKU-1', 'Espresso cup, white', 10, 6.90, '{"material": "porcelain", "ml": 70}'),
    ('SKU-2', 'Milk jug', 4, 19.50, '{"material": "steel", "ml": 350}'),
    ('SKU-3', 'Grinder', 2, 289.00, NULL)
ON CONFLICT DO NOTHING;

INSERT INTO shop.orders (order_no, customer, total) VALUES
    ('2026-0001', '6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11', 13.80)
ON CONFLICT DO NOTHING;
