#!/usr/bin/env bash
# deltalake 1.6.6 (delta-rs), PyArrow 26.0.1; 2026-11-28.
# Guess: appending values of another type to a column of integers is an error, unless every value is unchanged by the cast.
# Seen: a double of 7.9 is appended as 7, without a word, and the text "7" as 7. An integer that does not fit, and the text "x", are
# errors. So a writer whose column became fractional loses the fractions; compare the schemas before appending.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
uv venv --quiet environment
uv pip install --quiet --python environment deltalake==1.6.6 pyarrow==26.0.1
environment/bin/python - <<'PYTHON'
import deltalake
import pyarrow as pa

print("deltalake", deltalake.__version__, "pyarrow", pa.__version__)
deltalake.write_deltalake("amounts", pa.table({"amount": pa.array([1], pa.int32())}))
for values in ([7.9], ["7"]):
    deltalake.write_deltalake("amounts", pa.table({"amount": values}), mode="append")
found = sorted(deltalake.DeltaTable("amounts").to_pyarrow_table()["amount"].to_pylist())
print("1, then 7.9, then the text 7:", found)
assert found == [1, 7, 7], found
for values in (pa.array([3_000_000_000]), ["x"]):
    try:
        deltalake.write_deltalake("amounts", pa.table({"amount": values}), mode="append")
    except Exception as error:
        print("refused:", str(error).splitlines()[0])
    else:
        raise SystemExit("accepted")
PYTHON
