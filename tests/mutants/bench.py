"""A copy of the repository's working tree in which one mutant at a time is built and tested."""

import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from mutations import Mutant

# Whatever lockstep does not tell from the engine is tried on these: those first that have a word of the file's name in theirs,
# then the quickest.
TESTS = {
    "shm": """shm_transport_test shm_test mail_queue_test message_store_test bell_test shared_region_test strided_copy_test
        executor_test own_operators_test execute_sweep_test call_failures_test cxx_multicast_test c_api_ends_test
        memory_in_use_test many_ranks_test outstanding_calls_test""",
    "engine/execute": """data_hash_test executor_test lane_streams_test mailroom_test in_place_test execute_sweep_test
        execute_sweep_adversarial_test disagreement_test by_arrival_test arrival_runs_test reductions_test
        reduction_vectors_test reduction_calls_test own_operators_test gathered_puts_test registered_memory_test
        sparse_buffers_test strided_copy_test message_store_test outstanding_calls_test threads_health_test progress_test
        call_failures_test c_api_ends_test c_api_memory_test waits_in_cycles_test cycles_of_threads_test patient_waits_test
        group_ends_test""",
    "engine/multicast": """multicast_test rank_set_test set_calls_test multicast_parts_test multicast_window_test
        multicast_bound_test bcast_choice_test cxx_multicast_test c_api_sets_test multicast_limits_test multicast_random_test
        multicast_ending_test multicast_late_test multicast_faults_test cxx_multicast_ends_test ib_mcast_bench_test
        multicast_messages_test message_store_test""",
    "engine/tuner": """choices_test bcast_choice_test rules_test job_rules_test reduction_order_test race_test graph_test
        large_blocks_test context_options_test contention_free_times_test ib_tune_test""",
}
# Before those: what is named otherwise.
NAMED_OTHERWISE = {
    "arrival_descriptor": "progress_test",
    "choose": "choices_test rules_test",
    "conditions": "choices_test",
    "linear_hash": "data_hash_test check_calls_test",
    "mail_parts": "rank_set_test",
    "messages": "multicast_messages_test rank_set_test",
    "numbers": "rank_set_test",
    "previous": "multicast_window_test",
    "role": "rank_set_test",
    "registration": "gathered_puts_test registered_memory_test",
    "regions": "mailroom_test",
    "runs": "multicast_messages_test multicast_faults_test",
    "same_elements": "data_hash_test check_calls_test",
    "sends": "multicast_limits_test multicast_test multicast_faults_test",
    "shared_waits": "progress_test threads_test threads_health_test cycles_of_threads_test",
    "table": "choices_test",
    "turns": "threads_test threads_health_test",
    "wait_chains": "cycles_of_threads_test waits_in_cycles_test",
}
TOOLS_OF_TESTS = {"ib_mcast_bench_test": ["ib_mcast_bench", "ib_logp"], "multicast_bound_test": ["ib_logp"],
                  "ib_tune_test": ["ib_tune", "ib_a2a_bench"]}  # fmt: skip

LOCKSTEP_S = 20  # of what a mutant has
TESTS_S = 60  # all it has
_PR_SET_CHILD_SUBREAPER = 36


def folder_of(file: str) -> str:
    return os.path.dirname(file)


def adopt_orphans() -> None:
    """Has what tests leave behind become this process's, so that it can be ended."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    while True:
        path = Path(f"/proc/self/task/{os.getpid()}/children")
        children = [int(pid) for pid in path.read_text().split()]
        if not children:
            return
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in children:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def _execute(command: list[str], limit_s: float, cwd: Path, **settings: str) -> tuple[int | None, str, float]:
    """Its status (nothing: it did not end in time), its output, and how long it took."""
    begun = time.monotonic()
    with subprocess.Popen(command, cwd=cwd, env={**os.environ, **settings}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                          text=True, errors="replace") as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
            status = process.returncode
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            # What it has started may hold the pipe.
            process.stdout.close()
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            output, status = "", None
    _end_children()
    return status, output, time.monotonic() - begun


class Bench:
    def __init__(self, root: Path, scratch: Path, jobs: int):
        self._root, self._jobs = root, jobs
        self._tree, self._build_dir = scratch / "tree", scratch / "tree" / "build"
        self._baseline_file = scratch / "baseline.json"
        self._objects: dict[str, str] = {}  # path: what the compiler made of the tree as it is
        self._seconds: dict[str, float] = {}  # test: how long it takes

    def prepare(self) -> None:
        """Copies what has changed, builds lockstep, and sees that it passes."""
        if self._copy():
            self._baseline_file.unlink(missing_ok=True)
        if self._baseline_file.exists():
            self._seconds = json.loads(self._baseline_file.read_text())
        if not (self._build_dir / "build.ninja").exists():
            status, output, _ = _execute(
                ["cmake", "--preset", "release", "-DIBCOLL_BUILD_PERF=OFF", "-DCMAKE_UNITY_BUILD=OFF",
                 "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -Wl,--strip-debug"],
                600, self._tree)  # fmt: skip
            if status != 0:
                raise RuntimeError(f"cmake failed:\n{output}")
        self._must_build(["lockstep"])
        self._objects = {str(path): _code_of(path) for path in self._bed_objects()}
        if failure := self.lockstep(LOCKSTEP_S):
            raise RuntimeError(f"lockstep fails without any mutant: {failure}")

    def try_lockstep(self, mutant: Mutant) -> dict:
        """What comes of it: verdict (unbuildable, same, killed, passed), by whom, seconds of building and testing."""
        with self._changed(mutant) as begun:
            status, output = self._build(["lockstep"])
            built = {"build_s": round(time.time() - begun, 1)}
            if status != 0:
                return {"verdict": "unbuildable", "by": _first_error(output), **built}
            changed = [path for path in self._bed_objects() if path.stat().st_mtime >= begun]
            if all(_code_of(path) == self._objects.get(str(path)) for path in changed):
                return {"verdict": "same", **built}
            begun_tests = time.monotonic()
            failure = self.lockstep(LOCKSTEP_S)
            built["test_s"] = round(time.monotonic() - begun_tests, 1)
            return {"verdict": "killed", "by": "lockstep", "how": failure, **built} if failure else {"verdict": "passed", **built}

    def try_tests(self, mutant: Mutant) -> dict:
        """The same of one that lockstep does not notice: killed or survived."""
        build_s = test_s = usual_s = 0.0
        untried = []
        for test in self._tests_for(mutant.file):
            # By what tests usually take: a machine that others use, too, would try fewer.
            usual = self._usual_seconds(test)
            if usual_s + usual > TESTS_S - LOCKSTEP_S:
                untried.append(test)
                continue
            usual_s += usual
            with self._changed(mutant) as begun:
                status, output = self._build(_targets_of(test))
                build_s = round(build_s + time.time() - begun, 1)
                if status != 0:
                    return {"verdict": "unbuildable", "by": _first_error(output), "build_s": build_s}
                failure, seconds = self._test(test, max(10.0, 5 * usual))
            test_s = round(test_s + seconds, 1)
            if failure:
                return {"verdict": "killed", "by": test, "how": failure, "build_s": build_s, "test_s": test_s}
        return {"verdict": "survived", "untried": untried, "build_s": build_s, "test_s": test_s}

    def _usual_seconds(self, test: str) -> float:
        """What the test takes without any mutant; it must pass."""
        if test not in self._seconds:
            self._must_build(_targets_of(test))
            failure, self._seconds[test] = self._test(test, 300)
            if failure:
                raise RuntimeError(f"{test} fails without any mutant: {failure}")
            self._baseline_file.write_text(json.dumps(self._seconds, indent=1))
        return self._seconds[test]

    def _tests_for(self, file: str) -> list[str]:
        stem = Path(file).stem
        words = set(stem.split("_"))
        words |= {word[:-1] for word in words if word.endswith("s")}
        tests = [*NAMED_OTHERWISE.get(stem, "").split(), *TESTS[folder_of(file)].split()]
        return sorted(dict.fromkeys(tests), key=lambda test: (
            test not in NAMED_OTHERWISE.get(stem, "").split(), -len(words & set(test.split("_"))), self._seconds.get(test, 0)))  # fmt: skip

    @contextlib.contextmanager
    def _changed(self, mutant: Mutant):
        path = self._tree / mutant.file
        original = path.read_text()
        begun = time.time()
        self._write(path, mutant.apply(original))
        try:
            yield begun
        finally:
            self._write(path, original)

    def lockstep(self, seconds: float) -> str:
        """What it says of its first failure; nothing: there is none."""
        status, output, _ = _execute(
            ["bin/lockstep", "--seeds", "1000000", "--seconds", str(seconds), "--jobs", str(self._jobs), "--no-shrink"],
            seconds + 20, self._build_dir)  # fmt: skip
        if status is None:
            return "it does not end"
        lines = [line for line in output.splitlines() if line.startswith("lockstep: seed")]
        return "" if status == 0 else (lines or [output[-300:] or f"status {status}"])[0]

    def _test(self, test: str, limit_s: float) -> tuple[str, float]:
        status, output, seconds = _execute(
            [f"../bin/{test}", "--gtest_filter=-*Full*", "--gtest_fail_fast"], limit_s, self._build_dir / "tests",
            RC_PARAMS="seed=1")  # fmt: skip
        if status == 0:
            return "", seconds
        failed = re.findall(r"\[  FAILED  \] ([\w/.]+)", output)
        running = re.findall(r"\[ RUN      \] ([\w/.]+)", output)
        if status is None:
            return "it does not end", seconds
        return (failed or running[-1:] or [f"status {status}"])[0], seconds

    def _build(self, targets: list[str]) -> tuple[int | None, str]:
        status, output, _ = _execute(
            ["cmake", "--build", "build", "-j", str(self._jobs), "--target", *targets], 36000, self._tree,
            CCACHE_DEPEND="1")  # what it would look up by the preprocessor's output is never there
        return status, output

    def _must_build(self, targets: list[str]) -> None:
        status, output = self._build(targets)
        if status != 0:
            raise RuntimeError(f"the tree does not build: {_first_error(output)}")

    def _bed_objects(self) -> list[Path]:
        """What lockstep has of the engine: compiled for it, and what it shares with the library."""
        folders = [self._build_dir / "CMakeFiles" / f"ibcoll_{target}.dir" for target in ("bed_engine", "plain", "algorithms")]
        return sorted(path for folder in folders for path in folder.rglob("*.o"))

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text)
        # The build goes by times: this one is later than what it has made of the file before.
        os.utime(path)

    def _copy(self) -> bool:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self._root,
                                check=True, capture_output=True, text=True)  # fmt: skip
        names = {name for name in listed.stdout.split("\0") if name and (self._root / name).is_file()}
        changed = False
        for name in sorted(names):
            source, target = self._root / name, self._tree / name
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue
            changed |= not name.startswith(("tests/mutants/", "docs/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for path in list(self._tree.rglob("*")):
            name = str(path.relative_to(self._tree))
            if path.is_file() and not name.startswith(("build/", ".git/")) and name not in names:
                path.unlink()
                changed = True
        return changed


def _targets_of(test: str) -> list[str]:
    return [test, *TOOLS_OF_TESTS.get(test, ())]


def _first_error(output: str) -> str:
    errors = re.findall(r"error: .*", output)
    return errors[0] if errors else output[-300:]


def _code_of(path: Path) -> str:
    """What the compiler made, without where it comes from."""
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["objcopy", "--strip-debug", str(path), stripped.name], check=True)
        return hashlib.sha256(Path(stripped.name).read_bytes()).hexdigest()
