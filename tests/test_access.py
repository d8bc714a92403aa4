"""Who may do what, and how often: scopes of tokens, limits of tokens and addresses, and whose address counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.web.rates import MAX_KEYS, Buckets, Proxies, network_of
from tests.session_support import ALICE, BOB, RECIPES, service
from tests.web_support import headers, web_of

NOBODY = "00" * 32
SEAL = {"recipes": RECIPES}
SCOPED = [
    ("POST", "/v1/sessions", "seal"),
    ("POST", "/v1/batch/seals", "seal"),
    ("POST", "/v1/webhooks", "seal"),
    ("DELETE", "/v1/webhooks/wh_a", "seal"),
    ("POST", "/v1/webhooks/wh_a/rotate", "seal"),
    ("POST", f"/v1/sessions/{NOBODY}/contributions", "draw"),
    ("POST", f"/v1/sessions/{NOBODY}/joins", "draw"),
    ("POST", f"/v1/sessions/{NOBODY}/draws", "draw"),
    ("POST", f"/v1/sessions/{NOBODY}/links", "draw"),
    ("POST", f"/v1/sessions/{NOBODY}/reveal", "draw"),
    ("POST", f"/v1/sessions/{NOBODY}/void", "draw"),
    ("POST", "/v1/batch/draws", "draw"),
    ("GET", "/v1/sessions", "read"),
    ("GET", "/v1/webhooks", "read"),
    ("GET", "/v1/webhooks/wh_a", "read"),
    ("GET", "/v1/webhooks/wh_a/deliveries", "read"),
]


# --- scopes -----------------------------------------------------------------------------------------------------


async def test_a_token_without_the_scope_is_refused_and_told_which_one_is_due(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        size = running.log.latest().size
        for method, path, scope in SCOPED:
            for other in {"seal", "draw", "read"} - {scope}:
                async with client.request(method, path, headers=headers(ALICE, other), json={}) as answer:
                    problem = await answer.json()
                    assert (answer.status, problem["code"], problem["scope"]) == (403, "forbidden", scope), path
                    assert f"`{scope}`" in problem["detail"]
        assert running.log.latest().size == size


async def test_every_route_that_a_token_opens_is_in_the_table(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        shown = {(method, re.sub(f"{NOBODY}|wh_a", "{}", path)) for method, path, _ in SCOPED}
        refusing = set()
        for route in client.app.router.routes():
            path = re.sub(r"\{session\}", NOBODY, route.resource.canonical)
            if route.method == "HEAD" or "events" in path or "{tail" in path:
                continue
            path = re.sub(r"\{webhook\}", "wh_a", path)
            async with client.request(route.method, path, headers=headers(ALICE, "none"), json={}) as answer:
                if answer.status == 403:
                    refusing.add((route.method, re.sub(f"{NOBODY}|wh_a", "{}", path)))
        assert refusing == shown


async def test_the_scope_is_enough(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        async with client.post("/v1/sessions", json=SEAL, headers=headers(ALICE, "seal")) as answer:
            assert answer.status == 201
            session = (await answer.json())["session"]
        async with client.post(
            f"/v1/sessions/{session}/void", json={"reason": "host"}, headers=headers(ALICE, "draw")
        ) as answer:
            assert answer.status == 201
        async with client.get("/v1/sessions", headers=headers(ALICE, "read")) as answer:
            assert answer.status == 200
        async with client.get(f"/v1/sessions/{session}", headers=headers(ALICE, "read")) as answer:
            assert answer.status == 200


# --- limits over HTTP -------------------------------------------------------------------------------------------


async def test_an_address_has_its_limit_and_is_told(tmp_path):
    async with service(tmp_path) as running, web_of(running, rates={"address_per_minute": 3}) as client:
        left = []
        for _ in range(3):
            async with client.get("/problems/rate-limited") as answer:
                assert (answer.status, answer.headers["RateLimit-Policy"]) == (200, '"address";q=3;w=60')
                left.append(answer.headers["RateLimit"])
        assert left[0] == '"address";r=2;t=20'
        assert [re.match(r'"address";r=(\d);t=\d+$', one)[1] for one in left] == ["2", "1", "0"]
        async with client.get("/problems/rate-limited") as answer:
            problem = await answer.json()
            assert (answer.status, problem["code"], problem["retryable"]) == (429, "rate-limited", True)
            assert 1 <= int(answer.headers["Retry-After"]) <= 20
            assert answer.headers["RateLimit"].startswith('"address";r=0;')
            assert problem["request_id"] == answer.headers["X-Request-Id"]
        async with client.get("/nowhere") as answer:
            assert answer.status == 429
        async with client.get("/v1/sessions", headers=headers()) as answer:
            assert (answer.status, answer.headers["RateLimit-Policy"]) == (200, '"token";q=240000;w=60')
        async with client.get("/healthz") as answer:
            assert answer.status == 200
            assert "RateLimit" not in answer.headers


async def test_a_token_that_is_none_counts_for_the_address(tmp_path):
    async with service(tmp_path) as running, web_of(running, rates={"address_per_minute": 2}) as client:
        statuses = []
        for value in ("Bearer wrong", "Bearer fbj_wrong", "Bearer wrong-too"):
            async with client.get("/v1/sessions", headers={"Authorization": value}) as answer:
                statuses.append(answer.status)
        assert statuses == [401, 401, 429]


async def test_each_token_has_its_limit(tmp_path):
    async with service(tmp_path) as running, web_of(running, rates={"token_per_minute": 1}) as client:
        for scope, status in (("read", 200), ("read", 429), (None, 200)):
            async with client.get("/v1/sessions", headers=headers(ALICE, scope)) as answer:
                assert answer.status == status
        async with client.get("/problems/rate-limited") as answer:
            assert answer.status == 200


async def test_each_item_of_a_batch_counts(tmp_path):
    async with service(tmp_path) as running, web_of(running, rates={"token_per_minute": 5}) as client:
        async with client.post("/v1/batch/seals", json={"sessions": [SEAL] * 5}, headers=headers()) as answer:
            assert answer.status == 201
        async with client.get("/v1/sessions", headers=headers()) as answer:
            assert answer.status == 429
        draws = {"draws": [{"session": NOBODY, "recipe": "turn"}] * 5}
        for status in (404, 429):
            async with client.post("/v1/batch/draws", json=draws, headers=headers(BOB)) as answer:
                assert answer.status == status


async def test_without_limits_nothing_is_counted(tmp_path):
    none = {"token_per_minute": 0, "address_per_minute": 0}
    async with service(tmp_path) as running, web_of(running, rates=none) as client:
        for sent in ({}, headers()):
            async with client.get("/problems/rate-limited", headers=sent) as answer:
                assert answer.status == 200
                assert not [name for name in answer.headers if name.lower().startswith("ratelimit")]


@pytest.mark.parametrize(("proxies", "statuses"), [("", [200, 429, 429]), ("127.0.0.0/8 ::1", [200, 200, 429])])
async def test_forwarded_addresses_count_where_the_proxy_is_trusted(tmp_path, proxies, statuses):
    async with (
        service(tmp_path) as running,
        web_of(running, rates={"address_per_minute": 1}, proxies=proxies) as client,
    ):
        found = []
        for forwarded in ("198.51.100.1", "spoofed, 198.51.100.2", "203.0.113.9, 198.51.100.2"):
            async with client.get("/problems/rate-limited", headers={"X-Forwarded-For": forwarded}) as answer:
                found.append(answer.status)
        assert found == statuses


@pytest.mark.parametrize("joins", [False, True])
async def test_one_address_cannot_fill_an_open_session_at_the_rate_of_other_requests(tmp_path, joins):
    """Who has a join token was let in by the host."""
    async with service(tmp_path) as running, web_of(running, rates={"address_per_minute": 100}) as client:
        session = (await running.seal(open=True, participants=[])).session
        names = [f"p{number}" for number in range(20)]
        tokens = await running.sessions.join_tokens(ALICE, session, names)
        statuses = []
        for name in names:
            said, sent = {"participant": name, "entropy": "01"}, {"Authorization": f"Bearer {tokens[name]}"}
            path = f"/v1/sessions/{session.hex()}/contributions"
            async with client.post(path, json=said, headers=sent if joins else {}) as answer:
                statuses.append(answer.status)
        assert statuses[:5] == [201] * 5
        assert statuses[-1] == (201 if joins else 429)


# --- buckets and addresses --------------------------------------------------------------------------------------


def test_a_bucket_fills_evenly():
    now = [0]
    buckets = Buckets("token", 60, clock=lambda: now[0])
    assert [buckets.take("a").left for _ in range(60)] == list(range(59, -1, -1))
    assert buckets.take("a") == (False, 0, 60, 1)
    now[0] = 1_000_000_000
    assert buckets.take("a") == (True, 0, 60, 1)
    assert not buckets.take("a").allowed
    now[0] = 61_000_000_000
    assert buckets.take("a").left == 59


def test_what_is_owed_is_waited_for():
    now = [0]
    buckets = Buckets("token", 60, clock=lambda: now[0])
    buckets.take("a")
    buckets.owe("a", 99)
    assert buckets.take("a") == (False, 0, 100, 41)
    now[0] = 41_000_000_000
    assert buckets.take("a").allowed


def test_keys_are_bounded_and_the_oldest_use_goes_first():
    buckets = Buckets("address", 1, limit=2, clock=lambda: 0)
    for key in ("a", "b"):
        assert buckets.take(key).allowed
    buckets.owe("a", 1)
    assert buckets.take("c").allowed
    assert len(buckets) == 2
    assert not buckets.take("a").allowed
    assert buckets.take("b").allowed
    assert MAX_KEYS <= 100_000


@given(st.integers(1, 50), st.lists(st.integers(0, 20_000_000_000), max_size=60))
def test_no_window_takes_more_than_twice_the_quota(quota, pauses):
    now, taken = [0], []
    buckets = Buckets("token", quota, clock=lambda: now[0])
    for pause in pauses:
        now[0] += pause
        while buckets.take("a").allowed:
            taken.append(now[0])
    assert len(taken) <= quota + quota * now[0] / 60_000_000_000 + 1
    for start in taken:
        assert sum(start <= one < start + 60_000_000_000 for one in taken) <= 2 * quota


@pytest.mark.parametrize(
    ("remote", "forwarded", "client"),
    [
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.2.3.4, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.0.0.1", "10.1.1.1, 10.2.2.2", "10.1.1.1"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, 10.0.0.2, ,", "10.0.0.1"),
        ("::ffff:10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("fd00::5", "198.51.100.1:443", "fd00::5"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_client_behind_trusted_proxies(remote, forwarded, client):
    assert Proxies("10.0.0.0/8 fd00::/8").client(remote, forwarded) == client


@given(st.text(), st.text())
def test_no_header_breaks_the_address(remote, forwarded):
    assert Proxies("").client(remote, forwarded) == remote
    assert isinstance(Proxies("0.0.0.0/0 ::/0").client(remote, forwarded), str)
    assert isinstance(network_of(remote), str)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("", ""),
    ],
)
def test_networks_of_addresses(address, network):
    assert network_of(address) == network
