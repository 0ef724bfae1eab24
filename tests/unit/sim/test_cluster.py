from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.model import Gpu, Node
from weft.sim.clusters.reader import read_cluster

MURI = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cluster-spec.md"


def write(folder: Path, text: str, name: str = "c.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_nodes_by_gpus() -> None:
    assert read_cluster("2x3") == (
        Node("n0", (Gpu("", 32768),) * 3, switch="s0"),
        Node("n1", (Gpu("", 32768),) * 3, switch="s0"),
    )


@pytest.mark.parametrize(("name", "count"), [("n1g8", 1), ("n2g8", 2), ("n4g8", 4), ("n8g8", 8)])
def test_the_clusters_that_ship(name: str, count: int) -> None:
    nodes = read_cluster(name)
    assert [node.id for node in nodes] == [f"n{at}" for at in range(count)]
    assert {(len(node.gpus), node.cpus, node.ram_mb, node.switch) for node in nodes} == {(8, 92, 520 * 1024, "s0")}


def test_a_muri_cluster(tmp_path: Path) -> None:
    nodes = read_cluster(write(tmp_path, MURI + "2,2,8,92,520", "n4g8.csv"))
    assert [(node.id, node.switch) for node in nodes] == [("n0", "s0"), ("n1", "s0"), ("n2", "s1"), ("n3", "s1")]
    assert {(node.gpus, node.cpus, node.ram_mb) for node in nodes} == {((Gpu(),) * 8, 92, 520 * 1024)}


def test_a_muri_cluster_is_known_by_its_header(tmp_path: Path) -> None:
    assert len(read_cluster(write(tmp_path, MURI + "1,8,8,92,520\n", "n8g8"))) == 8


def test_the_example_of_the_reference_page(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    a100 = (Gpu("A100", 40960),) * 8
    assert read_cluster(write(tmp_path, example[1])) == (
        *(Node(f"a{n}", a100, 96, 524288, "rack1", (("zone", "eu"),)) for n in range(4)),
        Node("n0", (Gpu("V100", 32768), Gpu("T4", 16384)), switch="s0"),
    )


def test_each_prefix_is_numbered_across_the_file(tmp_path: Path) -> None:
    text = "nodes:\n- {count: 2, gpus: 1}\n- {name: b, gpus: 1}\n- {gpus: 0}\n"
    assert [node.id for node in read_cluster(write(tmp_path, text))] == ["n0", "n1", "b0", "n2"]


def test_unlike_gpus_fall_back_on_their_group(tmp_path: Path) -> None:
    text = "nodes: [{gpu_model: T4, memory_mb: 100, gpus: [{}, {model: L4}, {memory_mb: 7}]}]"
    (node,) = read_cluster(write(tmp_path, text))
    assert node.gpus == (Gpu("T4", 100), Gpu("L4", 100), Gpu("T4", 7))


def test_names_are_taken_as_written(tmp_path: Path) -> None:
    text = "nodes: [{gpus: 1, gpu_model: 4090, switch: 1.10, labels: {zone: no, a: 1}}]"
    (node,) = read_cluster(write(tmp_path, text))
    assert (node.gpus[0].model, node.switch, node.labels) == ("4090", "1.10", (("a", "1"), ("zone", "no")))


BAD_YAML: dict[str, tuple[str, int, str]] = {
    "empty": ("# nothing\n", 1, "an empty file"),
    "a list": ("- gpus: 8\n", 1, "expected a mapping (a cluster), found a list"),
    "a word": ("\neight\n", 2, "expected a mapping (a cluster), found 'eight'"),
    "no nodes key": ("{}\n", 1, "a cluster needs 'nodes'"),
    "other top key": ("\nnode: []\n", 2, "unknown key of a cluster 'node'\n  known: nodes"),
    "no nodes": ("nodes: []\n", 1, "no GPUs"),
    "nodes empty": ("nodes:\n", 1, "bad nodes: nothing\n  expected a list of node groups, found nothing"),
    "no GPUs": ("nodes:\n- {gpus: 0}\n", 2, "no GPUs"),
    "group is a number": ("nodes:\n- 8\n", 2, "expected a mapping (a node group), found '8'"),
    "gpus left out": ("nodes:\n- count: 2\n", 2, "a node group needs 'gpus'\n  expected a key 'gpus', found count"),
    "unknown key": ("nodes:\n- gpus: 8\n  cpu: 4\n", 3, "unknown key of a node group 'cpu'\n  known: cpus,"),
    "key twice": ("nodes:\n- gpus: 8\n  gpus: 4\n", 3, "key 'gpus' occurs twice"),
    "list as key": ("nodes:\n- gpus: 8\n  [a]: 4\n", 3, "expected text, found a list"),
    "text for a number": ("nodes:\n- gpus: '8'\n", 2, "expected a whole number from 0 to 1,000,000, found '8'"),
    "negative": ("nodes:\n- gpus: -1\n", 2, "bad nodes[0].gpus: '-1'\n  expected a whole number from 0 to 1,000,000"),
    "octal": ("nodes:\n- gpus: 010\n", 2, "found '010'"),
    "fraction": ("nodes:\n- gpus: 1\n  cpus: 1.5\n", 3, "found '1.5'"),
    "long number": (f"nodes:\n- gpus: 1\n  cpus: {'9' * 9000}\n", 3, "(9,000 characters)"),
    "zero count": (
        "nodes:\n- gpus: 1\n  count: 0\n",
        3,
        "bad nodes[0].count: '0'\n  expected a whole number from 1 to 1,000,000",
    ),
    "negative count": (
        "nodes:\n- gpus: 1\n- gpus: 1\n  count: -2\n",
        4,
        "bad nodes[1].count: '-2'\n  expected a whole number from 1",
    ),
    "label": ("nodes:\n- gpus: 1\n  labels: {zone: [a]}\n", 3, "bad nodes[0].labels.zone: a list\n  expected text"),
    "list for text": ("nodes:\n- gpus: 1\n  switch: [a]\n", 3, "expected text, found a list"),
    "null for text": (
        "nodes:\n- gpus: 1\n  switch:\n",
        3,
        "bad nodes[0].switch: nothing\n  expected text, found nothing",
    ),
    "escapes in a name": ('nodes:\n- gpus: 1\n  name: "\\e[2J"\n', 3, "expected text without control characters"),
    "labels are a list": ("nodes:\n- gpus: 1\n  labels: [a]\n", 3, "expected a mapping (labels), found a list"),
    "a GPU is a word": ("nodes:\n- gpus:\n  - A100\n", 3, "expected a mapping (a GPU), found 'A100'"),
    "unknown key of a GPU": ("nodes:\n- gpus:\n  - {name: A100}\n", 3, "unknown key of a GPU 'name'"),
    "ids that collide": (
        "nodes:\n- {gpus: 1, count: 11}\n- {gpus: 1, name: n1}\n",
        3,
        "node id 'n10' occurs twice",
    ),
    "too many GPUs": ("nodes:\n- gpus: 1000000\n- gpus: 1\n", 3, "expected at most 1,000,000 in all"),
    "too many nodes": ("nodes:\n- {gpus: 0, count: 1000000}\n- {gpus: 0}\n", 3, "too many nodes"),
    "syntax": ("nodes:\n- gpus: 8\n- {\n", 4, "look at indentation"),
    "tab": ("nodes:\n\t- gpus: 8\n", 2, "not YAML: found character '\\t'"),
    "control character": ("nodes:\n- gpus: \x07\n", 2, "not YAML: a control character"),
    "two documents": ("nodes: []\n---\nnodes: []\n", 2, "not YAML"),
    "anchor": (
        "nodes:\n- &a {gpus: 8}\n- *a\n",
        2,
        "anchors (&name) and aliases (*name) are not accepted\n  repeat the value",
    ),
    "tag": ("nodes:\n- gpus: !!python/name:os.system 8\n", 2, "tags are not accepted"),
    "alias": ("nodes:\n- {gpus: 8}\n- *a\n", 3, "anchors (&name) and aliases (*name) are not accepted"),
    "deep": ("[" * 20_000, 1, "nested too deeply"),
    "NUL": ("nodes:\n\0", 2, "a NUL byte"),
}


@pytest.mark.parametrize(("text", "line", "fragment"), BAD_YAML.values(), ids=BAD_YAML)
def test_a_mistake_in_yaml_is_named_with_its_line(tmp_path: Path, text: str, line: int, fragment: str) -> None:
    spec = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_cluster(spec)
    assert caught.value.where == f"{spec}:{line}"
    assert fragment in str(caught.value)


BAD_CSV: dict[str, tuple[str, int, str]] = {
    "empty": ("", 1, "an empty file"),
    "another header": (
        "a,b\n1,2\n",
        1,
        "num_cpu_p_node, mem_p_node; found 'a', 'b'",
    ),
    "negative": (MURI + "1,8,-8,92,520\n", 2, "bad num_gpu_p_node '-8'\n  expected a whole number from 1 to 1,000,000"),
    "no row": (MURI, 1, "found 0 under the header"),
    "two rows": (MURI + "1,8,8,92,520\n1,8,8,92,520\n", 3, "found 2 under the header"),
    "no GPUs": (MURI + "1,8,0,92,520\n", 2, "bad num_gpu_p_node '0'"),
    "too many": (MURI + "1000,1000,8,92,520\n", 2, "8,000,000 GPUs in all"),
}


@pytest.mark.parametrize(("text", "line", "fragment"), BAD_CSV.values(), ids=BAD_CSV)
def test_a_mistake_in_a_muri_cluster_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, fragment: str
) -> None:
    spec = write(tmp_path, text, "c.csv")
    with pytest.raises(InputError) as caught:
        read_cluster(spec)
    assert caught.value.where == f"{spec}:{line}"
    assert fragment in str(caught.value)


@pytest.mark.parametrize("spec", ["", "8", "8x", "x8", "-1x8", "8x8x8", "absent.yaml", "a\0b"])
def test_a_spec_that_is_nothing_shows_the_forms(spec: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster(spec)
    assert all(form in caught.value.hint for form in ("8x8", "FILE.csv", "FILE.yaml"))


@pytest.mark.parametrize("spec", ["0x8", "8x0", "1000001x1", "999999999x999999999"])
def test_a_grid_has_one_to_a_million_gpus(spec: str) -> None:
    with pytest.raises(InputError, match="with 1 to 1,000,000 GPUs in all"):
        read_cluster(spec)


def test_a_directory_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        read_cluster(str(tmp_path))
