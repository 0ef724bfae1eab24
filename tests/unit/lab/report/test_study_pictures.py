"""Pictures of studies: axes stay readable where a few values are far above the others."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from array import array

from weft.lab.report.study_pictures import Line, draw_scaling


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    times = array("d", range(60))
    late = array("d", [0.04] * 58 + [8.0, 12.0])
    requests, replicas = Line("requests", times, late), Line("deficit", times, array("l", [1] * 60))
    picture = next(iter(draw_scaling(requests, [replicas], [Line("deficit", times, late)])))
    texts = {
        "".join(each.itertext()).strip() for each in ET.fromstring(picture.svg).iter() if each.tag.endswith("text")
    }
    assert {"0.1", "1", "10"} <= texts
    assert not [text for text in texts if "math" in text]
