"""One boundary for all model calls: what a client's instrumentor needs beside its hooks.

========================  ====================================================
``calls``                 one span and one set of metrics per call
``captured_content``      what was said in a call, where the user wants it
``call_roles``            whose a call is: the policy's, a judge's, a tool's
``counted_calls``         how a call counts in its trajectory
``dropped_answers``       calls whose answers the program has dropped
``engine_calls``          the same for engines in the process of the program
``engine_requests``       tokens, candidates and times of an engine's requests
``engine_targets``        engines that have shown what they are, and their files
``engine_metrics``        queue and cache of these engines, asked by the leader
``engine_times``          times of a request as engines report them
``requests``              operation, model and parameters of a request
``servers``               address, port and provider
``answers``               tokens, finish reasons, facts of servers
``failures``              errors that an answer reports
``tool_round_trips``      tools that an answer asks for, and their results
``sent_calls``            a call around the function of a client that sends it
``streams``               iterators that follow a stream for its call
``measurements``          the metrics of calls
``pending_measurements``  measurements that are recorded together
``ownership``             spans of other instrumentors for the same call
``messages_protocol``    answers of the protocol of Anthropic
``gemini_protocol``       requests and answers of the protocol of Gemini
``converse_protocol``     requests and answers of Bedrock's Converse
``messages``              content in the shape of the conventions
``message_parts``         the parts of messages
``sample_messages``       prompt and completion of a trainer's sample as messages
``histories``             messages that an earlier call of the trajectory has recorded
``streamed_messages``     messages collected from chunks
``shortening``            content as JSON that fits into one attribute
``engine_answers``        what the engines of a step took, from their answers
``weight_versions``       versions of the weights by the tokens that they made
``fields``                fields of dictionaries and models
``http``                  engines that a program reaches with a plain HTTP client
========================  ====================================================
"""
