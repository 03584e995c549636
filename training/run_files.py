"""Names of the files in a run's work folder through which launcher and ranks speak.

run.json       RunSpec: written by the launcher, read by every rank
stop           exists while a stop is asked for: the ranks save after their step and end
heartbeat      touched by rank 0 after each step, evaluation and save
result.json    how the run ended, with the launch's id; replaced atomically by rank 0 at the end
launcher.log   output of launcher and ranks
"""

RUN_FILE = "run.json"
STOP_FILE = "stop"
HEARTBEAT_FILE = "heartbeat"
RESULT_FILE = "result.json"
LOG_FILE = "launcher.log"
