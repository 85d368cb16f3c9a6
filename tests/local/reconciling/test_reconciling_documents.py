"""Documents that a crash left half done: found a while later, and cleared away without what is whole."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.changed import Crashed
from tests.local.reconciled import ShiftedClock, found, reconcile, stored_versions
from tests.local.uploaded import upload
from workbench.knowledge import permission, removing, store, uploading
from workbench.retrieval import generations, index


def test_an_upload_that_crashed_is_cleared_away_and_the_others_stay(
    world: LocalSystem, api: Any, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, runtime = f"c-{secrets.token_hex(5)}", world.runtime
    whole = upload(api, owner=name, collection=name)
    owner = uploading.Owner("person", name)
    wish = uploading.Wish(name, owner, (owner,), "research", "a.txt", "text/plain", None, b"alpha beta", None)

    def crash(*_arguments: Any) -> Any:
        raise Crashed

    with monkeypatch.context() as crashing:
        crashing.setattr(uploading, "_publication", crash)
        with pytest.raises(Crashed):
            uploading.upload(runtime, wish)
    half = [item for item in runtime.table.query(f"COL#{name}", "DOC#") if item["state"] == "pending"]
    assert len(half) == 1 and "abandoned_documents" not in found(reconcile(world)), "it may be at work"
    clock.ahead += removing.ABANDONED_SECONDS + 60
    assert found(reconcile(world, dry=True))["abandoned_documents"] == 1
    assert found(reconcile(world), "repaired")["abandoned_documents"] == 1
    assert "abandoned_documents" not in found(reconcile(world))
    assert [item["state"] for item in runtime.table.query(f"COL#{name}", "DOC#")] == ["ready"]
    assert not [entry for entry in stored_versions(world) if half[0]["artifact"] in entry["Key"]]
    assert api("GET", f"/v1/documents/{whole['id']}/passages").json["total"] == 1


@pytest.mark.parametrize("owner", [{"owner": "ada"}, {"department": "research"}])
def test_a_collections_removal_that_stopped_is_finished(
    world: LocalSystem, api: Any, clock: ShiftedClock, owner: dict[str, str]
) -> None:
    name, runtime = f"c-{secrets.token_hex(5)}", world.runtime
    made = upload(api, collection=name, **owner)
    collection = store.load_collection(runtime, name)
    assert collection is not None
    removing.hide_collection(runtime, collection)
    assert "stalled_collections" not in found(reconcile(world)), "it may be at work"
    clock.ahead += 3_700
    assert found(reconcile(world), "repaired")["stalled_collections"] == 1
    assert runtime.table.query(f"COL#{name}") == []
    assert not [entry for entry in stored_versions(world) if made["artifact"] in entry["Key"]]


def test_an_index_that_is_lost_is_built_anew(world: LocalSystem, api: Any) -> None:
    name, runtime = f"c-{secrets.token_hex(5)}", world.runtime
    upload(api, owner="ada", collection=name)
    assert "lost_indexes" not in found(reconcile(world))
    lost = f"indexes/{name}/{generations.current(runtime, [name])[name].generation}.sqlite"
    runtime.clients.s3.delete_object(Bucket=runtime.settings.workspace_bucket, Key=lost)
    assert found(reconcile(world, dry=True))["lost_indexes"] == 1
    assert found(reconcile(world), "repaired")["lost_indexes"] == 1
    assert "lost_indexes" not in found(reconcile(world))
    assert [hit.text for hit in index.search(runtime, [permission.Scope(name, None)], "alpha")] == ["alpha beta gamma"]
