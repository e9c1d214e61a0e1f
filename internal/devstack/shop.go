package devstack

import _ "embed"

// Shop is the SQL of a small legacy schema with rows in it, for `gateway dev`
// and the tests. Running it again changes nothing.
//
//go:embed shop.sql
var Shop string

// ShopTables is the tables section of a gateway configuration for Shop.
const ShopTables = `tables:
  - name: shop.inventory
    lock: "inventory:{sku}"
  - name: shop.orders
    lock: "order:{order_no}"
  - name: shop.order_lines
    lock: "order:{order_no}"
`
