"""Which names in a query are views."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.sql_views import is_query, views_read


@pytest.mark.parametrize(
    ("sql", "views"),
    [
        ("SELECT 1", ()),
        ("select * from orders", ("orders",)),
        ("SELECT a FROM `my orders` o, b AS c, d WHERE x IN (1, e)", ("my orders", "b", "d")),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (x, y)", ("a", "b", "c")),
        ("SELECT extract(YEAR FROM at), trim(BOTH 'x' FROM name) FROM orders", ("orders",)),
        ("SELECT substring(name FROM 2), (SELECT max(x) FROM limits) FROM orders", ("limits", "orders")),
        ("SELECT a IS DISTINCT FROM b, c IS NOT DISTINCT FROM d FROM t", ("t",)),
        ("SELECT * FROM (SELECT * FROM inner_one) t JOIN (b CROSS JOIN c)", ("inner_one", "b", "c")),
        ("WITH x AS (SELECT * FROM a), y(p, q) AS (SELECT * FROM x) SELECT * FROM y, z", ("a", "z")),
        ("SELECT * FROM a LATERAL VIEW explode(xs) t AS x, y JOIN b", ("a", "b")),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x)", ("a", "b")),
        ("SELECT * FROM range(10), explode(array(1)), a", ("a",)),
        ("SELECT * FROM VALUES (1), (2) AS t(x)", ()),
        ("SELECT * FROM catalog.db.t JOIN parquet.`/data/x` JOIN a", ("a",)),
        ("SELECT 'from x', \"from y\" -- from z\n/* from w */ FROM a", ("a",)),
        ("SELECT a FROM b UNION ALL SELECT c FROM d EXCEPT SELECT e FROM f ORDER BY g, h", ("b", "d", "f")),
        ("SELECT sum(x) OVER (PARTITION BY y, z) FROM a WINDOW w AS (ORDER BY t), v AS (ORDER BY u)", ("a",)),
        ("FROM orders |> WHERE x > 1 |> SELECT a, b", ("orders",)),
        ("FROM a |> DROP queue_id, tags |> SET x = 1, y = 2 |> EXTEND p AS q, r AS s", ("a",)),
        ("TABLE a |> AS t |> JOIN b USING (x) |> DROP y, z |> AGGREGATE sum(u) GROUP BY v, w", ("a", "b")),
        ("FROM a, b |> WHERE x IN (FROM c |> SELECT y, z) |> UNION ALL TABLE d |> ORDER BY p, q", ("a", "b", "c", "d")),
        ("WITH t AS (FROM a |> DROP x, y) FROM t |> LEFT JOIN (FROM b |> DROP x, y) |> DROP p, q", ("a", "b")),
        ("SELECT count(*) FROM A GROUP BY b, c HAVING d IN (SELECT e FROM A)", ("A",)),
        ("SELECT w.from, t.where, x FROM a t, b w", ("a", "b")),
        ("WITH orders AS (SELECT * FROM orders WHERE x) SELECT * FROM orders", ("orders",)),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a JOIN c) SELECT * FROM b, A", ("c",)),
        ("WITH a (SELECT * FROM x), b(p) (SELECT * FROM a) FROM b", ("x",)),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, lim) SELECT * FROM n", ("lim",)),
        ("SELECT * FROM (WITH t AS (SELECT * FROM a) SELECT * FROM t) JOIN t", ("a", "t")),
        ("WITH t AS (TABLE a) TABLE t", ("a",)),
        ("SELECT * FROM (TABLE a) x", ("a",)),
        ("WITH RECURSIVE a AS (SELECT 1), b AS (FROM a JOIN b) FROM b", ()),
        ("TABLE a", ("a",)),
        ("table `my a` UNION ALL TABLE b ORDER BY c", ("my a", "b")),
        ("(TABLE a) EXCEPT TABLE cat.b", ("a",)),
        ("SELECT * FROM own_function(TABLE(a), 1, x => TABLE b)", ("a", "b")),
        ("SELECT table, x FROM a WHERE b.table > 1", ("a",)),
        ("SELECT * FROM IDENTIFIER('a') JOIN IDENTIFIER(\"`my b`\") x JOIN identifier('c.d')", ("a", "my b")),
        ("SELECT * FROM IDENTIFIER('a' || 'b') x JOIN c", ("c",)),
        ("TABLE IDENTIFIER('a')", ("a",)),
        ("SELECT * FROM", ()),
        ("SELECT ) ( FROM a )", ("a",)),
    ],
)
def test_views_read(sql: str, views: tuple[str, ...]) -> None:
    assert views_read(sql) == views


@pytest.mark.parametrize(
    ("sql", "is_one"),
    [
        ("SELECT 1", True),
        ("  -- why\n with a as (select 1) from a", True),
        ("(select 1) union (select 2)", True),
        ("VALUES (1)", True),
        ("DROP TABLE orders", False),
        ("INSERT INTO a SELECT 1", False),
        ("", False),
    ],
)
def test_is_query(sql: str, is_one: bool) -> None:
    assert is_query(sql) is is_one
