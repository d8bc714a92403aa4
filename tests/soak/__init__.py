"""A soak of the real service on loopback: mixed traffic of many hosts while everything around them fails.

The service, the devnet and two witnesses are the real programs in processes of their own; relays and witnesses are
reached through proxies that fail and lie. What was acknowledged is written down, and at the end compared with the log.

    shifted.py     a program of ours with its clock set ahead: time passes for the deadlines of the sessions left open
    world.py       the processes: started, killed, started again on the same ports
    proxies.py     relays and witnesses that fail, and the receiver of the webhooks
    trouble.py     when what fails: a timetable made of the seed
    ledger.py      what was acknowledged, under which receipt; what was refused; what went wrong
    recorder.py    the SDK's transport, written down, and its writes sent again
    hosts.py       the hosts: matches, live sessions, raffles, batches, contributions by tokens and by nobody
    watchers.py    readers: event streams, pages, checkpoints, and requests that are to be refused
    finale.py      the end: time passes until every session has ended, every webhook is through, all is cosigned
    judge.py       what has to agree, with the log, the auditor and the checks of the operator
"""
