"""Rules over the curves and the durations of a run: the same code live, in the leading process, and in the report.

====================  =====================================================================
``live``              the rules while the job runs: gauge, events
``monitor``           all rules over one loop: what comes in, what has changed, verdicts
``machine``           the state machine of one rule
``policy``            rules on entropy, learning rate, gradient, values that are not finite
``divergence``        rules on the KL
``updates``           rules on what updates do: a diverging loss, no change at all
``preferences``       the rule on preference training
``rewards``           rules on rewards: plateau, oscillation, hacking, no signal
``reward_falls``      rules on rewards and evaluations far below their best
``reward_levels``     whether a reward has risen, is solved, or how far it has fallen
``reward_columns``    their inputs in a loop of the program's own, from the rows of its rollouts
``calls``             rules on tools, models, services and engines that the process calls
``output``            rules on answers: garbled, truncated, stale, unscored, of a drifting engine
``durations``         the rule on step times
``points``            how many values a rule needs, and has
``reading``           what a rule reads from the curves at one step
``curves``            bounded histories of the inputs, under the keys of any trainer
``verdict``           the four states of a rule, and what it says of a run
``user_rules``        the rules in force: defaults, and the user's file
``rule_definitions``  form of the rules
``rule_table``        inputs and rules, generated from ``rules.yaml``
====================  =====================================================================
"""
