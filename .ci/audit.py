"""Look for known vulnerabilities in the versions of constraints.txt; part of `make check`.

Ends with 1 if there are any. Without an advisory service, it says so and ends with 0.
"""

import json
import subprocess
import sys
from pathlib import Path

OPTIONS = ("--no-deps", "--disable-pip", "--progress-spinner=off", "--timeout=10", "--format=json")
SKIPPED = "dependency audit skipped: no advisory service answers from here"


def main() -> int:
    constraints = Path(__file__).parents[1] / "constraints.txt"
    command = [sys.executable, "-m", "pip_audit", f"--requirement={constraints}", *OPTIONS]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        packages = json.loads(answer.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        print(SKIPPED)
        return 0
    audited = [package for package in packages if "vulns" in package]
    for package in audited:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")
    print(f"{len(audited)} of {len(packages)} dependencies audited" if audited else SKIPPED)
    return int(any(package["vulns"] for package in audited))


if __name__ == "__main__":
    sys.exit(main())
