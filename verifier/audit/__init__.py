"""Following a whole log: every leaf authenticated, every session verified, every host's account kept.

trees        the log's tiles under a checkpoint, read from the root down
sources      where a log comes from: its tiles, or a database file
keeping      the file in which that is, and damage, what may have become of it
state        what is kept between two audits
fold         what only who reads the whole log can see, entry by entry
dice         what the dice of ended sessions showed, of each host
judges       sessions judged in several processes
sessions     one session's verdict, in whatever process
witnessing   what witnesses say of the log's checkpoints, and what that proves of a session
gossip       asking the witnesses what they have seen of the log, and telling them
held         receipts that somebody holds, against the log
forks        two checkpoints that do not agree, as a file that a stranger can check
run          one audit, from the state that was kept to the newest checkpoint
"""
